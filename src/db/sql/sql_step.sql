-- The record of a step, in the transaction of its work; an error when the run is no longer ours.
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation, $4 name, $5 output.
select pgrab_internal.step_run($1::bigint, $2::bigint, $3::bigint, $4, $5)
