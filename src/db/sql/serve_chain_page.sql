-- Serves: the page of a chain, the page of a task.  As serve_chain; what is drawn only, behind `cursor`.
-- $1 a task of the chain, $2 the run (null: the one that it is in, or that comes next), $3 how many links.
:chain_links
select l.id, l.name, l.status, l.outcome, l.started_at, l.waited, l.seconds, l.finished_at, l.parents,
  null as cursor, l.depth, l.critical
from link l
order by l.depth, l.id
