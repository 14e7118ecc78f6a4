-- Serves: the page Timeline.  Like serve_timeline, with the places of the bars from 0 to 1: where it was due,
-- began and ended.
-- Plan: run_finished_idx, 120 times at most 150 rows.  $1 middle of the window (null: it ends now), $2 how
-- long it is, $3 by: node or task.
:timeline,
place as (
  select b.*, extract(epoch from b.due_at - f.since) / extract(epoch from $2::interval) as due_x,
    extract(epoch from coalesce(b.started_at, b.finished_at) - f.since) / extract(epoch from $2::interval)
      as x,
    extract(epoch from b.finished_at - f.since) / extract(epoch from $2::interval) as end_x
  from bar b cross join frame f)
select p.line, p.task_id, p.name, p.kind, p.attempt, p.outcome, p.runs, p.failed,
  round(p.seconds, 3) as seconds, p.more, to_char(p.started_at, 'YYYY-MM-DD HH24:MI:SS') as start,
  case p.outcome when 'running' then ''
    else to_char(p.finished_at, ' "to" YYYY-MM-DD HH24:MI:SS') end as until,
  round(extract(epoch from p.finished_at - p.started_at), 3) as took,
  case when p.due_at < p.started_at then to_char(p.due_at, 'YYYY-MM-DD HH24:MI:SS') end as due,
  case when p.due_x < p.x then greatest(p.due_x, 0) end::float8 as due_x,
  least(greatest(p.x, 0), 1)::float8 as x, least(greatest(p.end_x, 0), 1)::float8 as end_x
from place p
order by p.line = 'others', p.line, coalesce(p.started_at, p.finished_at), p.task_id
