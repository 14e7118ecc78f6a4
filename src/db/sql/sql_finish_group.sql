-- The finish of a group of runs, in the transaction of their work; an error when one is no longer ours.
-- Serves: sql executor.  $1 ids, in order, $2 versions, $3 incarnation, $4 us since each start, $5 us since
-- each end, $6 outputs, $7 cut?, $8 node, $9 its name.
select pgrab_internal.finish_runs($1::bigint[], $2::bigint[], $3::bigint, $4::bigint[], $5::bigint[],
  $6::text[], $7::boolean[], $8::bigint, $9)
