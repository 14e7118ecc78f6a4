-- After a finish whose reply was lost: which of these runs are in the history?  Those we have finished; the
-- others are stale.
-- Serves: finisher, sql executor.  Plan: run_task_idx.
-- $1 ids, $2 versions, $3 incarnations.
select r.task_id, r.version
from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::bigint[])) as f(id, version,
  incarnation)
join pgrab.run r on r.task_id = f.id and r.version = f.version and r.incarnation = f.incarnation
