-- Serves: GET /api/v1/moment, the page Timeline.  What was running at a moment, and what was waiting for
-- what: a link of a chain for its parents first.  Looked at are the first 10,000 runs that ended after it,
-- and what runs now.  Plan: run_finished_idx; run_chain_idx for the parents of a link.  $1 the moment.
with asked as materialized (select coalesce(pgrab_tool.moment($1::text), statement_timestamp()) as at),
near as materialized (
  select r.*
  from asked a cross join lateral (
    select x.task_id, coalesce(x.name, x.key) as name, x.kind, x.attempt, x.outcome, x.node, x.fire_at,
      coalesce(x.started_at, x.claimed_at, x.finished_at) as started_at, x.finished_at, x.created_at,
      x.chain_id, x.definition
    from pgrab.run x where x.finished_at > a.at order by x.finished_at limit 10000) r
  where r.started_at <= a.at or r.attempt <= 1 and greatest(r.fire_at, r.created_at) <= a.at
  union all
  select t.id, coalesce(t.name, t.key), t.kind, t.attempt, 'running', d.name, t.fire_at, t.started_at, null,
    t.created_at, (select h.chain_id from pgrab.chain h where h.chain = t.chain), null
  from asked a cross join pgrab_tool.in_hand() t left join pgrab.node d on d.id = t.node_id
  where t.status = 'running' and (t.started_at <= a.at or t.attempt = 1 and t.fire_at <= a.at)),
load as materialized (
  select n.node, n.kind = 'http' as http, count(*) as running
  from near n cross join asked a where n.started_at <= a.at group by 1, 2)
select case when n.started_at <= a.at then 'running' else 'waiting' end as status, n.task_id, n.name,
  n.kind, n.node,
  date_trunc('second', case when n.started_at <= a.at then n.started_at
    when p.ended_at <= a.at then greatest(n.fire_at, p.ended_at) else n.fire_at end) as since,
  date_trunc('second', case when n.started_at <= a.at then n.finished_at else n.started_at end) as until,
  n.outcome,
  case when n.started_at <= a.at then null
    when p.ended_at > a.at then format('waited for %s', p.name)
    when n.outcome in ('missed', 'skipped') then 'it was not run'
    when n.node is null then 'no node took it'
    when l.running >= c.slots then format('%s was busy: %s of %s', n.node, l.running, c.slots)
    else format('%s had %s runs', n.node, coalesce(l.running, 0)) end as waited_for
from near n cross join asked a
  left join load l on l.node = n.node and l.http = (n.kind = 'http')
  left join pgrab.node d on d.name = n.node
  left join lateral pgrab_tool.crew(d, n.kind) c on d.id is not null
  left join lateral ( -- the parent that ended last
    select x.finished_at as ended_at, coalesce(x.name, x.key, '#' || x.task_id) as name
    from pgrab.run x
    where x.chain_id = n.chain_id and x.finished_at <= n.started_at and x.task_id = any (array(
      select t.parent_id from pgrab.task t where t.id = n.task_id
      union all
      select e.parent_id from pgrab.edge e where e.child_id = n.task_id
      union all
      select (n.definition ->> 'parent_id')::bigint
      union all
      select (e.value ->> 'parent_id')::bigint from jsonb_array_elements(n.definition -> 'parents') e))
    order by x.finished_at desc limit 1) p on n.started_at > a.at and n.chain_id is not null
order by n.started_at > a.at, n.node, n.started_at, n.task_id
limit 100
