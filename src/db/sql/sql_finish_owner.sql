-- The same on a connection of the task's owner.
-- Serves: sql executor.  $1 id, $2 version, $3 proof, $4 us since the start, $5 output, $6 cut?
select pgrab_sql.finish($1::bigint, $2::bigint, $3, $4::bigint, $5, $6::boolean)
