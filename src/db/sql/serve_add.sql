-- Serves: POST /api/v1/tasks.  $1 the task.
select t.id, t.name, t.key, t.kind, t.status, t.run_at from pgrab.add($1::jsonb) t
