-- Serves: the page of a task.  As serve_task_runs, but for what would push errors off the screen.
-- Plan: as serve_task_runs.  $1 id, $2 limit.
select r.attempt, r.outcome, r.node, r.started_at,
  case when r.attempt = 1 then round(extract(epoch from
    greatest(coalesce(r.started_at, r.claimed_at) - r.fire_at, '0')), 3) end as waited,
  round(extract(epoch from r.finished_at - r.started_at), 3) as seconds, r.finished_at, r.exit_code,
  w.why as why_late, r.error,
  null as cursor, to_char(r.fire_at, 'YYYY-MM-DD"T"HH24:MI:SS') as fire_at
from (
  select y.* from (select x.* from pgrab.run x where x.task_id = $1::bigint offset 0) y
  order by y.finished_at desc limit $2::bigint) r
  left join lateral pgrab_tool.why_late(r.task_id, r.version, r.finished_at) w on r.attempt = 1
order by r.finished_at desc
