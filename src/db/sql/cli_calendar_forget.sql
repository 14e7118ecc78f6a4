-- Serves: pgrab calendar --forget.  $1 calendar, $2 first day, $3 last day.
select d.day, pgrab.delete_calendar_day(d.calendar, d.day) from pgrab.calendar_day d
where d.calendar = $1::text and d.day between $2::date and $3::date
