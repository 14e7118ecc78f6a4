-- The last check before anything is executed: still ours, still due, not edited, not paused, not deleted, and
-- no blackout.  It is made up to LEAD_US ahead of the due time, for which the worker then waits.  Counts the
-- attempt and returns the definition as it is now, so that a run is exactly what the row said when it
-- started.  Serves: starter (limit_start.sql for tasks with a limit_key).  Plan: nested loop, task_pkey by
-- id; HOT; see claim.sql.  The DELETE only takes a lock: pause_all() waits for starts in progress, as for
-- claims.
-- $1 ids, $2 versions, $3 incarnation.
with lock as (delete from pgrab.hold where false)
update pgrab.task t
set status = 'running', attempt = t.attempt + 1, started_at = greatest(clock_timestamp(), t.due_at)
from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
where t.id = any (array[c.id]) and t.version = c.version and t.incarnation = $3::bigint
  and t.status = 'claimed' and t.limit_key is null and not (select c.paused from pgrab.cluster c)
  and case when t.due_at <= clock_timestamp() + interval '3 ms' then true end and :may_start
  and :open_now
returning :run_columns
