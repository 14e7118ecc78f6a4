-- After a task's text: nothing that it may have left in the session is there for the next one.  False: that
-- cannot be known, and the connection is to be closed.  Serves: sql executor.
select pgrab_sql.clean(), pg_catalog.pg_advisory_unlock_all()
