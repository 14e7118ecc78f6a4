-- Serves: the page of one task.  Its next five fires.  Plan: task_pkey, calendar_pkey; a function scan that
-- LIMIT ends, but not if an argument of it were a subquery: so the calendar is joined.  $1 id.
select date_trunc('second', f.at) as utc,
  to_char(f.at at time zone t.timezone, 'Dy YYYY-MM-DD HH24:MI:SS') || ' ' || t.timezone as local,
  date_trunc('second', f.at - statement_timestamp()) as from_now
from pgrab.task t
left join pgrab.calendar c on c.name = t.calendar
cross join lateral (
  select f.at
  from pgrab.fires(t.schedule, t.timezone, greatest(statement_timestamp(), t.starts_at),
    coalesce(t.ends_at, 'infinity'), c.name, t.on_closed) f(at)
  limit 5) f
where t.id = $1::bigint and t.schedule is not null and t.schedule !~ '^@after'
