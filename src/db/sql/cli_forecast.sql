-- Serves: pgrab forecast.  In order of time, as the function returns them.  $1 horizon, $2 limit.
select f.fire_at, f.task_id, f.name, f.kind, f.node from pgrab.forecast($1::interval) f limit $2::bigint
