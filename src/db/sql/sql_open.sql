-- The first of a sql task's transaction.  Its backend notices when its node has gone, and bears the name by
-- which others end it when the node is dead; behind a pooler that may be what a text before has made of it.
-- And the fence: is this run still ours?  An error when not, so that nothing after it is executed.  Only
-- read: a lock held for the length of the task would keep people from editing it; the finish, in the same
-- transaction, is the check that counts.
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation.  Returns who it is, should it have to be ended.
select pg_catalog.pg_backend_pid(), pg_catalog.now(), :sql_guard,
  pgrab_internal.check_run($1::bigint, $2::bigint, $3::bigint)
