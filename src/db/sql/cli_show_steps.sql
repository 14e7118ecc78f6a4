-- Serves: pgrab show, the page of a task.  Plan: task_pkey, step_pkey, run_task_idx.  $1 id.
select s.step, date_trunc('milliseconds', s.finished_at) as finished_at
from (
  :show_steps) s
order by s.finished_at, s.step
