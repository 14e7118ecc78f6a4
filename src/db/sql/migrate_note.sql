-- Records the migration, before it is applied.  0 rows: another session has already applied it.
-- Serves: db/migrate.c.  $1 number, $2 file, $3 breaking, $4 version of the program.
insert into pgrab.migration (version, name, breaking, pgrab_version) values ($1::int, $2, $3::boolean, $4)
on conflict (version) do nothing
returning version
