-- Serves: pgrab blackout, GET /api/v1/blackouts.  $1 name (null: all).
select b.name, b.state, b.action, b.begins_at, b.ends_at, b.held, b.tasks, b.repeats, b.note, b.set_by
from pgrab.blackouts b where $1::text is null or b.name = $1
order by array_position('{on,next,over}', b.state), b.begins_at, b.name
