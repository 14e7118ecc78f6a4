-- Serves: the page of tasks.  Like serve_tasks, with columns.
-- Plan: as cli_tasks; a page begins at an id, or at the time of an end.
-- $1 status, $2 kind, $3 name, $4 key, $5 node, $6 source (null: all), $7 cursor (null: the first page),
-- $8 limit.
:tasks_page
select q.id, q.name, q.kind, q.status, q.attempt, q.due_at, q.node, q.finished_at, q.usual,
  q.cursor, q.searched
from q
order by q.part desc, q.ended_at desc, q.id desc
