-- Serves: GET /api/v1/tasks/ID/runs, pgrab show.  The newest first; waited: as in
-- pgrab.history.
-- Plan: run_task_idx of each partition, then a sort.  Without `offset 0` the planner, in a session that
-- avoids sorts (pg_session.c), would read the runs of all tasks in the order of run_finished_idx.  $1 id, $2
-- limit.
select r.attempt, r.outcome, r.node, r.fire_at, r.claimed_at, r.started_at, r.finished_at,
  case when r.attempt = 1 then round(extract(epoch from
    pgrab_tool.run_waited(r.fire_at, r.created_at, r.claimed_at, r.started_at)), 3) end as waited,
  round(extract(epoch from r.finished_at - r.started_at), 3) as seconds, r.exit_code, r.error,
  r.output_truncated, r.cpu_seconds, r.memory_bytes
from (select x.* from pgrab.run x where x.task_id = $1::bigint offset 0) r
order by r.finished_at desc limit $2::bigint
