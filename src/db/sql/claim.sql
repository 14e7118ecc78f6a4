-- The versioned claim: of the candidates, those that nobody was faster at become ours.
-- Serves: loader.  Plan: nested loop, task_pkey by id; one HOT update per row.  Candidates come sorted by id, so that two nodes lock in one order.
-- The arrays come through (select ...), and the test of the status through CASE, so that the planner knows neither their length nor how few rows match:
-- with a thousand ids it would read a small table from end to end, and in its order, not in that of the ids.
-- And `= any (array[...])` instead of `=`: the only way to such a row is then its key.  A table that was vacuumed empty and filled since is taken for one row, and with a plain
-- `=` reading it from end to end for every claim would seem as cheap (1.7 s instead of 3 ms for 500 rows of 20,000).
-- A due task of an instant kind ($5) has no moment between claim and start: it is started here.  (statement_timestamp(): one moment for all that depends on it.)
-- $1 ids, $2 versions, $3 node, $4 incarnation, $5 instant kinds.  Columns after `started` are the definition, as in start.sql; only a started row has them.
update pgrab.task t
set status = case when t.kind = any ($5::text[]) and t.due_at <= statement_timestamp() and t.delivery = 'at_least_once' and t.limit_key is null then 'running' else 'claimed' end,
  attempt = t.attempt + case when t.kind = any ($5::text[]) and t.due_at <= statement_timestamp() and t.delivery = 'at_least_once' and t.limit_key is null then 1 else 0 end,
  version = t.version + 1, node_id = $3::bigint, incarnation = $4::bigint, claimed_at = clock_timestamp(), started_at = null
from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
where t.id = any (array[c.id]) and t.version = c.version and case when t.status = 'scheduled' then true end
returning t.id, t.version, (date_part('epoch', t.due_at) * 1e6)::bigint as due_us, t.priority, t.status = 'running' as started,
  t.attempt, t.max_attempts, t.kind, t.delivery = 'at_most_once' as once,
  case when t.status = 'running' then t.name end, case when t.status = 'running' then t.command end,
  case when t.status = 'running' and (t.args <> '{}' or t.chain is not null and t.kind in ('shell', 'exec')) then pgrab.args_for(t) end,
  case when t.status = 'running' then (date_part('epoch', t.timeout) * 1e6)::bigint end,
  (date_part('epoch', t.fire_at) * 1e6)::bigint as fire_us, t.limit_key is not null as limited
