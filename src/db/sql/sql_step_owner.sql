-- Like sql_step.sql, on a connection of the task's owner.
-- Serves: sql executor.  $1 id, $2 version, $3 proof, $4 name, $5 output.
select pgrab_sql.step($1::pg_catalog.int8, $2::pg_catalog.int8, $3, $4, $5)
