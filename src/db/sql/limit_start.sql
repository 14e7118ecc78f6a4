-- As start.sql, for tasks with a limit_key: those that find a place are started, the others handed back to
-- stand in line.  Serves: starter.  $1 ids, $2 versions, $3 incarnation.
with placed as materialized (
  select p.id
  from pgrab_internal.limit_take(
    case when (select c.paused from pgrab.cluster c) then '{}' else $1::bigint[] end, $2::bigint[],
    $3::bigint) p(id))
update pgrab.task t
set status = 'running', attempt = t.attempt + 1, started_at = greatest(clock_timestamp(), t.due_at)
from placed p join unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version) on c.id = p.id
where t.id = any (array[p.id]) and t.version = c.version and t.incarnation = $3::bigint
  and t.status = 'claimed'
returning :run_columns
