-- The finish, in the transaction of the work; an error when the run is no longer ours.
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation, $4 us since the start, $5 output, $6 cut?, $7
-- node, $8 its name.
select pgrab_internal.finish_run(
  $1::bigint, $2::bigint, $3::bigint, $4::bigint, $5, $6::boolean, $7::bigint, $8)
