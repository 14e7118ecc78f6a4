-- Serves: pgrab next.  Function scan; LIMIT ends it, so infinity as its end does no harm.
-- $1 expression, $2 time zone, $3 after (null: now), $4 how many, $5 calendar (null: none), $6 on_closed.
-- `local` is ISO 8601 with the zone's offset at that moment.
select to_char(l.at, 'Dy') as day,
  to_char(l.at, 'YYYY-MM-DD HH24:MI:SS') || case when l.shift < interval '0' then '-' else '+' end
    || to_char(greatest(l.shift, -l.shift), 'HH24:MI') as local,
  date_trunc('second', f.at) as utc, date_trunc('second', f.at - statement_timestamp()) as from_now
from pgrab.fires($1::text, $2::text, coalesce(
    pgrab_tool.moment($3::timestamptz::text), statement_timestamp()), 'infinity', $5::text, $6::text) f(at)
cross join lateral (
  select f.at at time zone $2::text as at,
    (f.at at time zone $2::text) - (f.at at time zone 'UTC') as shift) l
limit $4::bigint
