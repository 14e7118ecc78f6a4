-- After a task's text: removes what it may have left in the session.  False: this is uncertain, and the
-- connection must be closed.  Serves: sql executor.
select pgrab_sql.clean(), pg_catalog.pg_advisory_unlock_all()
