-- Releases the session's advisory locks that a task's text has left, after its commit: until then they guard
-- its work.  Sent together with the commit, so that it reaches the same session through a pooler.
-- Serves: sql executor.
select pg_catalog.pg_advisory_unlock_all()
