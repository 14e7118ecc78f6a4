-- Serves: pgrab chains --run.  $1 number of the run of a chain, $2 limit.
select r.root, repeat('  ', r.depth) || left(r.task, 40) as task, r.id, r.kind, r.status, r.outcome,
  date_trunc('second', r.started_at) as started_at, date_trunc('second', r.finished_at) as finished_at
from pgrab.chain_run($1::bigint) r
order by r.root desc, r.path
limit $2::bigint
