-- The last statement of the task, whose rows are its output.
-- Serves: sql executor.  $1 statement, $2 parameters, $3 bytes of output to keep.
select pgrab_sql.run_last($1, $2::pg_catalog.text[], $3::pg_catalog.int4)
