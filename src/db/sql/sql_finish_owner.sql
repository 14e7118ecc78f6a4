-- Like sql_finish.sql, on a connection of the task's owner.
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation, $4 us since the start, $5 output, $6 cut?, $7
-- proof.
select :sql_guard,
  pgrab_sql.finish($1::pg_catalog.int8, $2::pg_catalog.int8, $7, $4::pg_catalog.int8, $5,
    $6::pg_catalog.bool),
  pgrab_sql.clean()
