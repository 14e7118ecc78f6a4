-- Serves: db/migrate.c, dry run.  $1 number.
select from pgrab.migration m where m.version = $1::int
