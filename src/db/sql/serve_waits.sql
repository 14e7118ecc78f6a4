-- Serves: the overview, the page Waiting.  As cli_waits.  $1 limit.
select w.id, w.name, w.kind, w.waits_for, w.since, w.until, w.signal_by
from pgrab.waits w order by w.since, w.id limit $1::bigint
