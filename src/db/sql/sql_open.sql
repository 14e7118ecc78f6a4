-- The first statement of a sql task's transaction.  It sets what makes the backend notice when its node is
-- gone, and the name by which other nodes end it when the node is dead; behind a pooler an earlier text may
-- have changed both.  And it checks the fence: an error when the run is no longer ours, so that nothing after
-- it is executed.  The row is only read, because a lock for the length of the task would keep users from
-- editing it; the check that counts is in the finish, in the same transaction.
-- Serves: sql executor.  $1 incarnation, $2 id, $3 version.  Returns the process id, in case it must be
-- ended.
select pg_catalog.pg_backend_pid(), pg_catalog.now(), :sql_guard,
  pgrab_internal.check_run($2::bigint, $3::bigint, $1::bigint)
