-- Serves: POST /api/v1/tasks/ID/answer.  $1 id, $2 the answer.
select i.id, coalesce(t.name, t.key) as name, t.kind, pgrab.resolve(i.id, $2::jsonb) as outcome
from (select $1::bigint as id) i left join pgrab.task t on t.id = i.id
