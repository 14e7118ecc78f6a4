-- Serves: pgrab logs.  What is known of the output of a run.
-- Plan: task_pkey, live_output_pkey, run_task_idx.
-- $1 id, $2 version of the run (null: the current or last one), $3 ask its node for more?
select l.version, l.running, l.pending, l.total, l.unbroken, l.output, l.attempt, l.outcome, l.error, l.node,
  date_trunc('second', l.told_at) as told_at, l.truncated
from pgrab_tool.output_of($1::bigint, $2::bigint, $3::boolean) l
