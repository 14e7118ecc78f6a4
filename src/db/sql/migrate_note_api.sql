-- Records the api, before it is applied.  0 rows: another session has already applied this very text, and it
-- is for the columns that there are.
-- Serves: db/migrate.c.  $1 hash, $2 version of the program, $3 even if the text is the same?
insert into pgrab.api as a (hash, pgrab_version) values ($1, $2)
on conflict (only_row) do update
set hash = excluded.hash, pgrab_version = excluded.pgrab_version, applied_at = excluded.applied_at,
  applied_by = excluded.applied_by
where a.hash <> excluded.hash or $3::boolean or
:columns_differ
returning 1
