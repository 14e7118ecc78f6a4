-- As start.sql, for tasks with a limit_key: those that find a place are started, the others handed back to stand in line.
-- Serves: starter.  $1 ids, $2 versions, $3 incarnation.
with placed as materialized (select p.id from pgrab.limit_take($1::bigint[], $2::bigint[], $3::bigint) p(id))
update pgrab.task t
set status = 'running', attempt = t.attempt + 1, started_at = greatest(clock_timestamp(), t.due_at)
from placed p join unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version) on c.id = p.id
where t.id = any (array[p.id]) and t.version = c.version and t.incarnation = $3::bigint and t.status = 'claimed'
returning t.id, t.version, (date_part('epoch', t.due_at) * 1e6)::bigint as due_us, t.priority, true as started,
  t.attempt, t.max_attempts, t.kind, t.delivery = 'at_most_once' as once, t.name, t.command,
  case when t.args <> '{}' or t.chain is not null and t.kind in ('shell', 'exec') then pgrab.args_for(t) end, (date_part('epoch', t.timeout) * 1e6)::bigint,
  (date_part('epoch', t.fire_at) * 1e6)::bigint as fire_us, t.limit_key is not null as limited
