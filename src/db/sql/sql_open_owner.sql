-- Like sql_open.sql, on a connection of the task's owner.
-- Serves: sql executor.  $1 incarnation, $2 id, $3 version, $4 proof.
select pg_catalog.pg_backend_pid(), pg_catalog.now(), :sql_guard,
  pgrab_sql.check_run($2::pg_catalog.int8, $3::pg_catalog.int8, $4)
