-- Serves: GET /api/v1/tasks/ID/output, the page.  Of a run that is under way: what its node wrote down when
-- it was last asked, and this asks again.  Plan: task_pkey, run_task_idx.  $1 id.
select $1::bigint as task_id, o.running, o.attempt, o.outcome, o.node, o.told_at, o.error, o.output,
  o.truncated
from pgrab.output_of($1) o
where o.version is not null
