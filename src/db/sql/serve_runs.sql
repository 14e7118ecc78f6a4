-- Serves: GET /api/v1/runs.  Like cli_runs, page by page: a row as JSON, and the cursor of the next page.
-- A row without JSON at the end: the search went so far, as `searched` says, and goes on with that cursor.
-- Plan: run_finished_idx backwards, run_failed_idx when an outcome other than succeeded is asked for, or
-- run_task_idx.  $1 task, $2 outcome, $3 name, $4 key, $5 node, $6 source, $7 since, $8 until, $9 started
-- since, $10 started until, $11 cursor (null: all, and the first page), $12 limit.
:runs_page
select case when q.searched is null then row_to_json((select x from (
    select q.task_id, q.name, q.kind, q.attempt, q.outcome, q.node,
      date_trunc('second', q.started_at) as started_at, q.waited, q.seconds,
      date_trunc('second', q.finished_at) as finished_at, q.error) x)) end as row,
  concat(q.finished_at, '~', q.task_id, '~', q.version) as cursor, q.searched
from q
order by q.finished_at desc, q.task_id desc, q.version desc
