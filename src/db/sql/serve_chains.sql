-- Serves: the page Chains.  As cli_chains, with how long each took, and how long that usually takes.
-- $1 limit.
select c.root, c.task, c.id, c.kind, c.status, c.outcome, c.started_at, c.finished_at,
  c.finished_at - c.started_at as took,
  (select pgrab_tool.usual(t.durations) from pgrab.task t where t.id = c.id) as usual
from pgrab.chains c
order by c.root desc, c.path
limit $1::bigint
