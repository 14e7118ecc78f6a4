-- Serves: pgrab forecast.  In the order of the function: by time.  $1 horizon, $2 limit.
select date_trunc('second', f.fire_at) as fire_at, f.task_id, f.name, f.kind, f.schedule, f.node,
  date_trunc('second', f.ends_at) as ends_at
from pgrab.forecast($1::interval, $2::int) f
