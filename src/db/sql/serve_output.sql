-- Serves: GET /api/v1/tasks/ID/output, the page.  For a run in progress: what its node wrote down at the last
-- request, and this requests more.  Plan: task_pkey, run_task_idx.  $1 id.
select $1::bigint as task_id, o.running, o.attempt, o.outcome, o.node, o.told_at, o.error, o.output,
  o.truncated
from pgrab_tool.output_of($1) o
where o.version is not null
