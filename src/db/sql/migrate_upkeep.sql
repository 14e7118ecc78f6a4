-- After the api: the first partitions of the history, so that a run can be recorded from the first
-- moment.  Serves: db/migrate.c.
select pgrab_internal.days_ahead()
