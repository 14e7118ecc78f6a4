-- Records steps of runs in progress.
-- Serves: teller.  Plan: task_pkey, step_pkey.
-- $1 ids, $2 versions, $3 incarnations, $4 names, $5 results as JSON (null: is there one?).
select r.n, r.state, r.result
from pgrab_internal.steps_record($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::text[]) r
