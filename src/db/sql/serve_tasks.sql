-- Serves: GET /api/v1/tasks.  Like cli_tasks, page by page: a row as JSON, and the cursor of the next page.
-- A row without JSON at the end: the search went so far, as `searched` says, and goes on with that cursor.
-- Plan: as cli_tasks; a page begins at an id, or at the time of an end.
-- $1 status, $2 kind, $3 name, $4 key, $5 node, $6 source (null: all), $7 cursor (null: the first page),
-- $8 limit.
:tasks_page
select case when q.searched is null then row_to_json((select x from (
    select q.id, q.name, q.kind, q.status, q.attempt, q.due_at, q.node, q.finished_at,
      q.usual) x)) end as row,
  q.cursor, q.searched
from q
order by q.part desc, q.ended_at desc, q.id desc
