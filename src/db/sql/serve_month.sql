-- Serves: the page Month, GET /api/v1/month.  $1 time zone, $2 days, $3 limit.
select m.day, m.hour, date_trunc('second', m.at) as at, m.fires, m.tasks, m.unknown, m.work_seconds, m.crew,
  m.at_once, m.slots, m.names, m.more, m.blackouts, m.complete
from pgrab.month($1::text, $2::int, $3::int) m
order by m.at
