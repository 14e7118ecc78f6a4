-- For tasks that have been due for longer than their misfire_after: pgrab_internal.misfire() decides what
-- becomes of the fires.
-- Serves: loader.  $1 ids, $2 versions.
select pgrab_internal.misfire($1::bigint[], $2::bigint[])
