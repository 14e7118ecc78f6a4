-- Serves: POST /api/v1/tasks.  $1 the task, $2 the trace context of the request (null: none).
select t.id, t.name, t.key, t.kind, t.status, t.run_at
from pgrab.add(pgrab_tool.traced($1::jsonb, $2::text)) t
