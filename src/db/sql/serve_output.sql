-- Serves: GET /api/v1/tasks/ID/output, the page.  Plan: run_task_idx.  Of the last run.  $1 id.
select r.task_id, r.attempt, r.outcome, r.started_at, r.finished_at, r.exit_code, r.error, r.output,
  r.output_truncated
from pgrab.run r where r.task_id = $1::bigint
order by r.finished_at desc limit 1
