-- Serves: GET /api/v1/chains/ID/graph.  The links of one run of a
-- chain with their times; none if there are more than $3.  Plan: task_chain_idx, run_chain_idx.
-- $1 a task of the chain, $2 the run (null: the one that it is in, or that comes next), $3 how many links.
:chain_links
select l.id, l.name, l.kind, l.status, l.outcome, l.depth, l.parents, l.started_at, l.finished_at, l.waited,
  l.seconds, l.critical
from link l
order by l.depth, l.id
