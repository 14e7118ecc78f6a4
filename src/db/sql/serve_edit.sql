-- Serves: PATCH /api/v1/tasks/ID.  $1 id, $2 the columns that change.
select t.id, t.name, t.key, t.kind, t.status, t.run_at from pgrab.edit($1::bigint, $2::jsonb) t
