-- The locks of the session that a task's text has taken and not let go, after its commit: until then they
-- guard what it did.  In one go with the commit, so that it is the same session where a pooler is in between.
-- Serves: sql executor.
select pg_catalog.pg_advisory_unlock_all()
