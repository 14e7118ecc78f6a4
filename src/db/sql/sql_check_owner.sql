-- The same on a connection of the task's owner.  Serves: sql executor.  $1 id, $2 version, $3 proof.
select pgrab_sql.check_run($1::bigint, $2::bigint, $3)
