-- Serves: GET /api/v1/timeline.  What ran, node by node or task by task, in a window of time.
-- Plan: run_finished_idx, 120 times at most 150 rows.  $1 middle of the window (null: it ends now), $2 how
-- long it is, $3 by: node or task.
:timeline
select b.line, b.task_id, b.name, b.kind, b.attempt, b.outcome, b.due_at, b.started_at, b.finished_at, b.runs,
  b.failed, round(b.seconds, 3) as seconds, b.more
from bar b
order by b.line = 'others', b.line, coalesce(b.started_at, b.finished_at), b.task_id
