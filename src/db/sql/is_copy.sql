-- Is this database a copy of the one that its tasks belong to?  Then this pauses them until `pgrab adopt`.
-- Serves: heartbeat, after it has registered.
select pgrab_internal.is_copy()
