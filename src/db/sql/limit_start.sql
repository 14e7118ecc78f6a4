-- Like start.sql, for tasks with a limit_key: those that get a place are started, the others are handed back
-- to wait in line.  Serves: starter.  $1 ids, $2 versions, $3 incarnation.
with lock as (delete from pgrab.hold where false),
placed as materialized (
  select p.id
  from (
      select coalesce(array_agg(c.id), '{}') as ids, coalesce(array_agg(c.version), '{}') as versions
      from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
        join pgrab.task t on t.id = any (array[c.id])
      where not (select c.paused from pgrab.cluster c) and :may_start and :open_now) a
    cross join lateral pgrab_internal.limit_take(a.ids, a.versions, $3::bigint) p(id))
update pgrab.task t
set status = 'running', attempt = t.attempt + 1, started_at = greatest(clock_timestamp(), t.due_at)
from placed p join unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version) on c.id = p.id
where t.id = any (array[p.id]) and t.version = c.version and t.incarnation = $3::bigint
  and t.status = 'claimed'
returning :run_columns
