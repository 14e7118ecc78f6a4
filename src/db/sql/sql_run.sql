-- The task's own text.  Serves: sql executor.  $1 statements, $2 parameters, $3 bytes of output to keep.
select pgrab_internal.run_sql($1::text[], $2::text[], $3::int)
