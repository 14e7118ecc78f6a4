-- Serves: pgrab calendar --delete.  $1 name.
select c.name from pgrab.calendar c where c.name = $1::text and pgrab.delete_calendar(c.name)
