-- Serves: the page of a task.  How many of its fires of the last 7 days were not run, by outcome.
-- Plan: run_task_idx of the partitions of those days, as serve_task_runs.  $1 id.
select r.outcome, count(*) as fires
from (
  select x.outcome from pgrab.run x
  where x.task_id = $1::bigint and x.finished_at > statement_timestamp() - interval '7 days' offset 0) r
where r.outcome in ('missed', 'skipped') group by 1 order by 1
