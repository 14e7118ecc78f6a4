-- Serves: pgrab calendar --close, --open.  $1 calendar, $2 first day, $3 last day, $4 open, $5 note.
insert into pgrab.calendar_day as d (calendar, day, open, note)
select $1::text, g.day, $4::boolean, $5::text
from pgrab_tool.days($2::date, $3::date) g(day)
on conflict (calendar, day) do update set open = excluded.open, note = excluded.note
