-- Serves: pgrab top, every second: the cluster in one row.  Counts are bounded, see pgrab.overview; `_more`
-- is true where one stopped at its bound.
select current_database() as database, statement_timestamp() as at, n.nodes, o.nodes_up, o.running, o.due,
  o.late, o.due = 10000 as due_more, o.oldest_late, o.parked, o.parked = 10000 as parked_more,
  o.failing, o.overdue, pgrab_tool.count_waiting() as waiting, o.runs_1m, o.failed_1m as failures_1m,
  o.runs_1m = 10000 as runs_1m_more,
  n.runs_total, n.failures_total
from pgrab.overview o, (
  select count(*) as nodes, coalesce(sum(n.runs_succeeded + n.runs_failed), 0) as runs_total,
    coalesce(sum(n.runs_failed), 0) as failures_total
  from pgrab.node n) n
