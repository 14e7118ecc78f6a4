-- Serves: GET /api/v1/tasks.  As cli_tasks, page by page: a row as JSON, and where the next page begins.
-- Plan: as cli_tasks; a page begins at an id, or at the time of an end.
-- $1 status, $2 kind, $3 name, $4 key, $5 node, $6 source (null: all), $7 cursor (null: the first page),
-- $8 limit.
:tasks_page
select row_to_json((select x from (
    select a.id, a.name, a.kind, a.status, a.attempt, a.due_at, a.node, a.finished_at) x)) as row,
  concat(a.part, '~', a.ended_at, '~', a.id) as cursor
from (
  select l.*, 'live' as part, null::timestamptz as ended_at from live l
  union all
  select e.id, e.name, e.kind, e.ended, e.attempt, null, e.node, date_trunc('second', e.finished_at), 'ended',
    e.finished_at
  from ended e) a
order by a.part desc, a.ended_at desc, a.id desc
limit $8
