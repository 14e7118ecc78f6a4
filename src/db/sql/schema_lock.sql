-- Two migrators at once: the second waits here until the first has committed.  Serves: migrate.  (The number is arbitrary: "pgrab" in ASCII.)
set local lock_timeout = '30s';
select pg_advisory_xact_lock(482686923106);
