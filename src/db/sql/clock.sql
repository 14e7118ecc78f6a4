-- What time it is here, in microseconds since 1970.  Serves: loader.
select (date_part('epoch', clock_timestamp()) * 1e6)::bigint
