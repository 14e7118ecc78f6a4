-- Serves: the page Month: the closed days of calendars, twenty of them at most.  As day_open(), which not
-- everybody may call.  Plan: calendar_pkey and calendar_day_pkey, for each day.  $1 time zone, $2 days.
with today as (select (statement_timestamp() at time zone $1::text)::date as day)
select t.day + g.n as day, left(string_agg(c.name, ', ' order by c.name), 40) as calendars
from today t cross join generate_series(0, $2::int - 1) g(n) cross join (
    select x.name, x.closed_weekdays from pgrab.calendar x order by x.name limit 20) c
where not coalesce(
  (select d.open from pgrab.calendar_day d where d.calendar = c.name and d.day = t.day + g.n),
  lower(to_char(t.day + g.n, 'Dy')) <> all (c.closed_weekdays))
group by 1 order by 1
