-- Serves: the page of the runs of the last day that began more than a minute late, of the last 10000 runs.
-- Plan: run_finished_idx backwards; why_late() for the rows shown.  $1 limit.
select q.task_id, q.name, q.kind, q.outcome, q.node, date_trunc('second', q.fire_at) as fire_at,
  date_trunc('second', q.began) as started_at,
  date_trunc('second', q.began - greatest(q.fire_at, q.created_at)) as late_by,
  w.why as why_late, date_trunc('second', q.finished_at) as finished_at, null as cursor, q.version, w.why_at
from (
  select r.*
  from (
    select x.task_id, coalesce(x.name, x.key) as name, x.kind, x.outcome, x.node, x.fire_at, x.created_at,
      x.attempt, coalesce(x.started_at, x.claimed_at) as began, x.finished_at, x.version
    from pgrab.run x where x.finished_at > statement_timestamp() - interval '1 day'
    order by x.finished_at desc limit 10000) r
  where :began_late
  order by r.finished_at desc limit $1::bigint) q
  left join lateral pgrab_tool.why_late(q.task_id, q.version, q.finished_at) w on true
order by q.finished_at desc
