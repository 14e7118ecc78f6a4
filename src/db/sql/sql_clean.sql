-- After a task's text has ended: removes what it may have left in the session.  After a commit these are the
-- advisory locks, which have guarded its work until then, and what a deferred trigger has left that fired at
-- the commit itself; sent together with it, so that it reaches the same session through a pooler.  False:
-- this is uncertain, and the connection must be closed.  Serves: sql executor.
select coalesce(pgrab_sql.clean() operator(pg_catalog.<>) 'extension', true),
  pg_catalog.pg_advisory_unlock_all()
