-- Serves: GET /api/v1/speed, the page Nodes.  How quick each node is: its last runs against the median of the
-- same tasks on all nodes.  Plan: run_finished_idx backwards, at most 5000 rows of a day, grouped without a
-- join.
with r as (
  select x.task_id, x.node, x.outcome, extract(epoch from x.finished_at - x.started_at)::float8 as seconds
  from pgrab.run x
  where x.finished_at > statement_timestamp() - interval '1 day' and x.node is not null
    and x.started_at is not null
  order by x.finished_at desc limit 5000),
task as (
  select case when min(r.node) < max(r.node)
      then nullif(percentile_cont(0.5) within group (order by r.seconds), 0) end as usual,
    array_agg(r.node) as nodes, array_agg(r.seconds) as seconds, array_agg(r.outcome) as outcomes
  from r group by r.task_id)
select u.node, count(*) as runs,
  count(*) filter (where u.outcome in ('failed', 'timed_out', 'lost')) as failed,
  round((percentile_cont(0.5) within group (order by u.seconds))::numeric, 3) as seconds_p50,
  round((percentile_cont(0.5) within group (order by u.seconds / t.usual)
    filter (where t.usual is not null))::numeric, 2) as times_usual
from task t cross join lateral unnest(t.nodes, t.seconds, t.outcomes) u(node, seconds, outcome)
group by 1 order by times_usual desc nulls last, u.node
