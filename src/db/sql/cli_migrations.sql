-- Serves: pgrab migrate --status.
select m.version, m.name, m.breaking, m.pgrab_version,
  date_trunc('second', m.applied_at) as applied_at, m.applied_by
from pgrab.migration m order by m.version
