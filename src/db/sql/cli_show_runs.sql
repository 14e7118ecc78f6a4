-- Serves: pgrab show.  The last hundred attempts of one task, the oldest first.
-- Plan: run_task_idx of each partition, then a sort, as serve_task_runs.  $1 id.
with last as (
  select r.* from (select x.* from pgrab.run x where x.task_id = $1::bigint offset 0) r
  order by r.finished_at desc limit 100)
select r.attempt, r.outcome, r.node, date_trunc('second', r.started_at) as started_at,
  round(extract(epoch from r.finished_at - r.started_at), 3) as seconds, r.exit_code as exit, r.error
from last r
order by r.finished_at
