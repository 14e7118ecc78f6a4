-- Serves: GET /api/v1/events, once a second for each listener: what has happened since the last look.
-- $1 where that ended (null: return only the nodes).  The last row says where this one ends.
-- Plan: run_finished_idx; of each lane and shard the twenty rows due longest (task_due_idx).  A row may be
-- committed a little later than its time says, so the last second is left for the next look.  At most 200 of
-- each kind of event; `more` says that there were more.
with span as materialized (
  select coalesce($1::timestamptz, statement_timestamp()) as after,
    greatest(statement_timestamp() - interval '1 s', $1::timestamptz) as until),
ended as materialized (
  select r.* from span s join pgrab.run r on r.finished_at > s.after and r.finished_at <= s.until
  order by r.finished_at limit 201),
started as materialized (
  select t.id, coalesce(t.name, t.key) as name, t.kind, t.attempt, t.node_id, t.started_at
  from span s, pgrab_tool.due_until(statement_timestamp(), null, 20) t
  where t.status = 'running' and t.started_at > s.after and t.started_at <= s.until
  order by t.started_at limit 201)
select e.at, e.event, e.data
from (
  select s.started_at as at, 'started' as event, json_build_object('task_id', s.id, 'name', s.name,
    'kind', s.kind, 'attempt', s.attempt, 'node', n.name, 'started_at', s.started_at) as data
  from started s left join pgrab.node n on n.id = s.node_id
  union all
  select r.finished_at, 'ended', json_build_object('task_id', r.task_id, 'name', coalesce(r.name, r.key),
    'kind', r.kind, 'attempt', r.attempt, 'node', r.node, 'outcome', r.outcome, 'finished_at', r.finished_at)
  from ended r) e
union all
select s.until, case when (select count(*) from ended) > 200 or (select count(*) from started) > 200
  then 'more' end, '{}'
from span s
union all
select s.until, 'nodes', coalesce((
  select json_agg(json_build_object('name', n.name, 'state', n.state) order by n.name)
  from pgrab.nodes n), '[]')
from span s
order by 1
