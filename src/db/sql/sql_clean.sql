-- After a task's text that did not end well: removes what it may have left in the session.  False: this is
-- uncertain, and the connection must be closed.  Serves: sql executor.
select coalesce(pgrab_sql.clean() operator(pg_catalog.<>) 'extension', true),
  pg_catalog.pg_advisory_unlock_all()
