-- Serves: the page Month.  As serve_month, with words for a drawing.  $1 time zone, $2 days, $3 limit.
select to_char(m.at at time zone $1::text, 'HH24:MI') as hour, m.fires, m.tasks, m.work_seconds, m.crew,
  m.at_once, m.slots, m.names, m.more, m.blackouts, m.day as cursor, m.hour as place,
  to_char(m.day, 'Dy DD Mon') as label, m.complete
from pgrab.month($1::text, $2::int, $3::int) m
order by m.at
