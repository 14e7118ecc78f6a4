-- Serves: the page Month.  What is at work at once in one hour, a thousand names.
-- $1 time zone, $2 day, $3 hour, $4 limit.
select to_char(m.day, 'Dy DD Mon') || to_char(m.at at time zone $1::text, ' HH24:MI') as label, m.names,
  m.more
from pgrab.month($1::text, $2::date - (statement_timestamp() at time zone $1)::date + 1, $4::int, 1000) m
where m.day = $2::date and m.hour = $3::int
