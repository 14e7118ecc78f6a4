-- Serves: the overview, the page Month, GET /api/v1/congestion.  $1 how far ahead, $2 limit.
select c.begins_at, c.ends_at, c.late_by, c.worst_at, c.crew, c.slots, c.names, c.more
from pgrab.congestion($1::interval, $2::int) c
order by c.begins_at, c.crew
