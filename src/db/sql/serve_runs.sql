-- Serves: GET /api/v1/runs.  Like cli_runs, page by page: a row as JSON, and the cursor of the next page.
-- Plan: run_finished_idx backwards, or run_task_idx.  $1 task, $2 outcome, $3 name, $4 key, $5 node,
-- $6 source, $7 since, $8 until, $9 cursor (null: all, and the first page), $10 limit.
:runs_page
select row_to_json((select x from (
    select q.task_id, q.name, q.attempt, q.outcome, q.node,
      date_trunc('second', q.finished_at) as finished_at, q.seconds, q.error) x)) as row,
  concat(q.finished_at, '~', q.task_id, '~', q.version) as cursor
from q
order by q.finished_at desc, q.task_id desc, q.version desc
