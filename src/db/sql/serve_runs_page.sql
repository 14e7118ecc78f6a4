-- Serves: the page of the history.  Like serve_runs, with columns, why a run began late, and
-- which fire was not run, and what became of a run that was lost.
-- Plan: run_finished_idx backwards, run_failed_idx when an outcome other than succeeded is asked for, or
-- run_task_idx.  $1 task, $2 outcome, $3 name, $4 key, $5 node, $6 source, $7 since, $8 until, $9 started
-- since, $10 started until, $11 cursor (null: all, and the first page), $12 limit.
:runs_page
select q.task_id, q.name, q.kind, q.attempt, q.outcome, q.node,
  date_trunc('second', q.started_at) as started_at, concat_ws(E'\n', q.waited, w.why) as waited,
  q.seconds, date_trunc('second', q.finished_at) as finished_at,
  case when q.outcome in ('missed', 'skipped')
    then format('its fire of %s: %s', date_trunc('second', q.fire_at), pgrab_tool.times_here(q.error))
    when q.outcome = 'lost' then concat_ws('; ', q.error,
      pgrab_tool.after_lost(q.task_id, q.fire_at, q.finished_at))
    else q.error end as error,
  concat(q.finished_at, '~', q.task_id, '~', q.version) as cursor, q.version,
  q.searched, w.why_at
from q left join lateral pgrab_tool.why_late(q.task_id, q.version, q.finished_at) w
    on q.waited > 2 or q.outcome = 'missed'
order by q.finished_at desc, q.task_id desc, q.version desc
