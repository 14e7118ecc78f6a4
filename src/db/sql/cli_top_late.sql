-- Serves: pgrab top, GET /api/v1/late.  The tasks that have been late for longest, and why.  Plan: why() only
-- for the rows shown.  $1 limit, $2 maximum length of names.
with :late
select t.id, left(t.name, $2::int) as name, date_trunc('second', statement_timestamp() - t.since) as late_by,
  pgrab.why(t.id) as why, t.kind
from late t
order by t.since
