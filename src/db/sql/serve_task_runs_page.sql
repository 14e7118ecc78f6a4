-- Serves: the page of a task.  As serve_task_runs, but for what would push errors off the screen.
-- Plan: as serve_task_runs.  $1 id, $2 limit.
select r.attempt, r.outcome, r.node, r.started_at,
  case when r.attempt = 1 then round(extract(epoch from
    pgrab_tool.run_waited(r.fire_at, r.created_at, r.claimed_at, r.started_at)), 3) end as waited,
  round(extract(epoch from r.finished_at - r.started_at), 3) as seconds, r.finished_at, r.exit_code,
  w.why as why_late,
  case when r.outcome in ('missed', 'skipped')
    then format('its fire of %s: %s', date_trunc('second', r.fire_at), pgrab_tool.times_here(r.error))
    else r.error end as error,
  null as cursor, r.task_id, r.version, w.why_at,
  to_char(r.finished_at - least(b.whole / 2, '3 days'), 'YYYY-MM-DD"T"HH24:MI:SSOF') as middle,
  case when b.whole < '30 s' then 'minute' when b.whole < '30 min' then 'hour'
    when b.whole < '12 h' then 'day' else 'week' end as span -- a window of the timeline that it is in
from (
  select y.* from (select x.* from pgrab.run x where x.task_id = $1::bigint offset 0) y
  order by y.finished_at desc limit $2::bigint) r
  left join lateral pgrab_tool.why_late(r.task_id, r.version, r.finished_at) w
    on r.attempt = 1 or r.outcome = 'missed'
  cross join lateral (
    select r.finished_at - coalesce(case when r.attempt = 1 then least(r.fire_at, r.started_at) end,
      r.started_at, r.claimed_at, r.finished_at) as whole) b
order by r.finished_at desc
