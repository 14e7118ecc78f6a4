-- Serves: pgrab calendar NAME.  Its single days, from today on.  $1 name.
select to_char(d.day, 'Dy') as weekday, d.day, case when d.open then 'open' else 'closed' end as is, d.note
from pgrab.calendar_day d where d.calendar = $1::text and d.day >= current_date order by d.day
