-- Serves: GET /api/v1/tasks/ID/runs, the page.  Plan: run_task_idx.  The newest first.  $1 id, $2 limit.
select r.attempt, r.outcome, r.node, r.fire_at, r.claimed_at, r.started_at, r.finished_at,
  round(extract(epoch from r.finished_at - r.started_at), 3) as seconds, r.exit_code, r.error,
  r.output_truncated
from pgrab.run r where r.task_id = $1::bigint
order by r.finished_at desc limit $2::bigint
