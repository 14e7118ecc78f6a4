-- What is installed.  Serves: db/migrate.c.  $1 the highest number that this program knows.  Counts the known
-- migrations that are applied; a newer breaking one makes the schema unusable for this program.  The api is
-- that of no program where a table has other columns than it knows.
select coalesce(max(m.version), 0), count(*) filter (where m.version <= $1::int),
  coalesce(bool_or(m.breaking) filter (where m.version > $1::int), false),
  coalesce((select a.hash from pgrab.api a where not
:columns_differ
    ), ''), coalesce((select a.pgrab_version from pgrab.api a), '0')
from pgrab.migration m
