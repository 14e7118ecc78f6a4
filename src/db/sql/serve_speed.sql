-- Serves: GET /api/v1/speed, the page Nodes.  How quick each node is: its last runs against the median of the
-- same tasks on all nodes.  Plan: run_finished_idx backwards, at most 5000 rows of a day.
with r as materialized (
  select x.task_id, x.node, x.outcome, extract(epoch from x.finished_at - x.started_at)::float8 as seconds
  from pgrab.run x
  where x.finished_at > statement_timestamp() - interval '1 day' and x.node is not null
    and x.started_at is not null
  order by x.finished_at desc limit 5000),
usual as (
  select r.task_id, percentile_cont(0.5) within group (order by r.seconds) as seconds
  from r group by 1 having count(distinct r.node) > 1)
select r.node, count(*) as runs,
  count(*) filter (where r.outcome in ('failed', 'timed_out', 'lost')) as failed,
  round((percentile_cont(0.5) within group (order by r.seconds))::numeric, 3) as seconds_p50,
  round((percentile_cont(0.5) within group (order by r.seconds / u.seconds)
    filter (where u.seconds > 0.001))::numeric, 2) as times_usual
from r left join lateral (select x.seconds from usual x where x.task_id = r.task_id) u on true
group by 1 order by times_usual desc nulls last, r.node
