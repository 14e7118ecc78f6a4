-- Serves: the overview.  As cli_waits, the first eight.
select w.id, w.name, w.kind, w.waits_for, w.since, w.until, w.signal_by
from pgrab.waits w order by w.since, w.id limit 8
