-- Serves: the page of a run.  Plan: run_task_idx.  $1 id of the task, $2 its version during the run.
select r.task_id, coalesce(r.name, r.key) as name, r.kind, r.attempt, r.outcome, r.node, r.fire_at,
  r.claimed_at, r.started_at, r.finished_at, round(extract(epoch from r.finished_at - r.started_at), 3)
    as seconds, w.why as why_late, w.why_at, r.exit_code, r.cpu_seconds, r.memory_bytes, r.output_truncated,
  case when r.outcome in ('missed', 'skipped') then pgrab_tool.times_here(r.error) else r.error end as error,
  r.output
from (select x.* from pgrab.run x where x.task_id = $1::bigint offset 0) r
  left join lateral pgrab_tool.why_late(r.task_id, r.version, r.finished_at) w on true
where r.version = $2::bigint
order by r.finished_at desc limit 1
