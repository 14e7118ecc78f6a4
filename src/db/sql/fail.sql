-- Runs that did not succeed: the task is tried again after its backoff, or parked after the last attempt, with the reason; a run that was lost with
-- its node is tried again at once.  at_most_once: never again.  The history row is written in the same statement.  Fenced.
-- Serves: finisher, and recover through recover.sql's twin rule.  Plan: nested loop, task_pkey by id.
-- $1 ids, $2 versions, $3 incarnations, $4 us since the start, $5 us since the end, $6 exit codes, $7 outputs, $8 output cut?, $9 node, $10 node's name,
-- $11 outcomes, $12 errors.
with f as (
  select * from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::bigint[]), (select $4::bigint[]), (select $5::bigint[]), (select $6::int[]), (select $7::text[]), (select $8::boolean[]), (select $11::text[]), (select $12::text[]))
    as f(id, version, incarnation, started_us, finished_us, exit_code, output, truncated, outcome, error)),
kept as (
  update pgrab.task t
  set status = case when n.again then 'scheduled' else 'parked' end,
    due_at = case when n.again and not t.paused then case when f.outcome = 'lost' then t.due_at else clock_timestamp() + pgrab.retry_wait(t.backoff, t.backoff_max, t.attempt) end end,
    version = t.version + 1, node_id = null, incarnation = null, claimed_at = null,
    runs = t.runs + 1, failures = t.failures + 1, last_outcome = f.outcome, last_error = left(f.error, 1000),
    last_finished_at = statement_timestamp() - f.finished_us * interval '1 us'
  from f join pgrab.task o on o.id = any (array[f.id])
    cross join lateral (select o.attempt < o.max_attempts and o.delivery = 'at_least_once' and f.outcome <> 'cancelled' as again, o.claimed_at as claimed_at) n
  where t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation and t.status = 'running' and o.version = t.version
  returning t.id, t.attempt, f.version, f.incarnation, t.fire_at, n.claimed_at, t.created_at, t.kind, t.owner, t.name, t.last_finished_at,
    f.started_us, f.exit_code, f.output, f.truncated, f.outcome, f.error)
insert into pgrab.run (task_id, attempt, exit_code, node_id, incarnation, version, fire_at, claimed_at, started_at, finished_at, created_at, output_truncated,
  outcome, kind, node, owner, name, error, output)
select k.id, k.attempt, k.exit_code, $9::bigint, k.incarnation, k.version, k.fire_at, k.claimed_at,
  statement_timestamp() - k.started_us * interval '1 us', k.last_finished_at, k.created_at, k.truncated,
  k.outcome, k.kind, $10::text, k.owner, k.name, k.error, k.output
from kept k
returning task_id, version
