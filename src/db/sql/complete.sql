-- Runs that succeeded and end their plain task (nothing of it will fire again, nobody waits for it): the row leaves and the history row is written, in one statement.
-- Fenced by (id, version, incarnation).  What it does not find here is asked of pgrab.finish() before it counts as stale.
-- Serves: finisher, and the sql executor inside the task's own transaction.  Plan: nested loop, task_pkey by id.
-- (select ...) and CASE: as in claim.sql.  Without them a table of 20000 tasks is joined to the arrays row by row, at 3000 tasks a second.
-- The times are counted back from statement_timestamp(), the moment the node's message arrived: planning is not part of the run.
-- $1 ids, $2 versions, $3 incarnations, $4 us since the start, $5 us since the end, $6 exit codes, $7 outputs, $8 output cut?, $9 node, $10 node's name.
with gone as (
  delete from pgrab.task t
  using unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::bigint[]), (select $4::bigint[]), (select $5::bigint[]), (select $6::int[]),
      (select $7::text[]), (select $8::boolean[]))
    as f(id, version, incarnation, started_us, finished_us, exit_code, output, truncated)
  where t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation and case when t.status = 'running' and t.schedule is null and t.limit_key is null and t.chain is null and t.run_at <= t.fire_at then true end
  returning t.id, t.attempt, t.version, t.incarnation, t.fire_at, t.claimed_at, t.created_at, t.kind, t.owner, t.name, pgrab.definition(t) as definition,
    f.started_us, f.finished_us, f.exit_code, f.output, f.truncated)
insert into pgrab.run (task_id, attempt, exit_code, node_id, incarnation, version, fire_at, claimed_at, started_at, finished_at, created_at, output_truncated,
  outcome, ended, kind, node, owner, name, output, definition)
select g.id, g.attempt, g.exit_code, $9::bigint, g.incarnation, g.version, g.fire_at, g.claimed_at,
  now.at - g.started_us * interval '1 us', now.at - g.finished_us * interval '1 us', g.created_at, g.truncated,
  'succeeded', 'done', g.kind, $10::text, g.owner, g.name, g.output, g.definition
from gone g, (select statement_timestamp() as at offset 0) now
returning task_id, version
