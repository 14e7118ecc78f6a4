-- Like sql_finish.sql, on a connection of the task's owner.
-- Serves: sql executor.  $1 id, $2 version, $3 us since the start, $4 output, $5 cut?, $6 proof.
select pgrab_sql.finish(
  $1::pg_catalog.int8, $2::pg_catalog.int8, $6, $3::pg_catalog.int8, $4, $5::pg_catalog.bool)
