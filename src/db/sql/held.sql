-- After a claim or start whose reply was lost: which of these rows does this incarnation hold, and are they started?
-- Serves: loader, starter.  Same columns as claim.sql.
-- $1 ids, $2 versions (as they are if the statement went through), $3 incarnation.
select t.id, t.version, (date_part('epoch', t.due_at) * 1e6)::bigint as due_us, t.priority, t.status = 'running' as started,
  t.attempt, t.max_attempts, t.kind, t.delivery = 'at_most_once' as once, t.name, t.command,
  case when t.args <> '{}' or t.chain is not null and t.kind in ('shell', 'exec') then pgrab.args_for(t) end, (date_part('epoch', t.timeout) * 1e6)::bigint,
  (date_part('epoch', t.fire_at) * 1e6)::bigint as fire_us, t.limit_key is not null as limited
from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
join pgrab.task t on t.id = any (array[c.id]) and t.version = c.version
where t.incarnation = $3::bigint and t.status in ('claimed', 'running')
