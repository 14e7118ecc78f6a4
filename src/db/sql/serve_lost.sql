-- Serves: the page Nodes.  How many runs were lost with each node within a week, of the last ten thousand
-- that did not succeed.
-- Plan: run_failed_idx backwards, at most 10000 rows.
select r.node, count(*) as runs_lost, count(distinct r.task_id) as tasks,
  date_trunc('second', max(r.finished_at)) as last_at
from (
  select x.node, x.outcome, x.task_id, x.finished_at from pgrab.run x
  where x.outcome <> 'succeeded' and x.finished_at > statement_timestamp() - interval '7 days'
  order by x.finished_at desc limit 10000) r
where r.outcome = 'lost' group by r.node order by 4 desc limit 50
