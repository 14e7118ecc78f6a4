-- Serves: pgrab chains.  $1 a task of the chain (null: all), $2 limit.
select c.root, c.task, c.id, c.kind, c.status, c.outcome, c.started_at, c.finished_at
from pgrab.chains c
where $1::bigint is null or c.root in (select x.root from pgrab.chains x where x.id = $1)
order by c.root desc, c.path
limit $2::bigint
