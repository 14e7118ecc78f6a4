-- Serves: pgrab calendar.  $1 name (null: all).
select c.* from pgrab.calendars c where $1::text is null or c.name = $1 order by c.name
