-- Serves: GET /api/v1/moment, the page Timeline.  What was running at a moment, and what was waiting for
-- what.  Looked at are the first 10,000 runs that ended after it, and what runs or waits now; sixty that ran
-- and sixty that waited are told, and of the five limits that most of these waited for who had them.
-- Plan: run_finished_idx; run_task_idx and run_chain_idx for what is told; due_first() and in_line() for what
-- is due still; why() only for the rows shown.  $1 the moment.
with asked as materialized (select coalesce(pgrab_tool.moment($1::text), statement_timestamp()) as at),
near as materialized (
  select r.*
  from asked a cross join lateral (
    select x.task_id, x.version, coalesce(x.name, x.key) as name, x.kind, x.attempt, x.outcome, x.node,
      x.fire_at, coalesce(x.started_at, x.claimed_at, x.finished_at) as started_at, x.finished_at,
      x.created_at, x.error, x.claimed_at, x.definition ->> 'limit_key' as limit_key, x.definition
    from pgrab.run x where x.finished_at > a.at order by x.finished_at limit 10000) r
  where r.started_at <= a.at or r.attempt <= 1 and greatest(r.fire_at, r.created_at) <= a.at
  union all
  select t.id, t.version, coalesce(t.name, t.key), t.kind, t.attempt, 'running', d.name, t.fire_at,
    t.started_at, null, t.created_at, null, t.claimed_at, t.limit_key, null
  from asked a cross join pgrab_tool.in_hand() t left join pgrab.node d on d.id = t.node_id
  where t.status = 'running' and (t.started_at <= a.at or t.attempt = 1 and t.fire_at <= a.at)),
load as materialized (
  select n.node, n.kind = 'http' as http, sum(pgrab_tool.run_slots(n.task_id, n.definition)) as running
  from near n cross join asked a where n.started_at <= a.at group by 1, 2),
ran as (
  select n.* from near n cross join asked a where n.started_at <= a.at
  order by n.started_at, n.task_id limit 60),
waited as materialized (
  select n.*, k.what, coalesce(n.limit_key, k.limit_key) as under,
    date_trunc('second', greatest(n.fire_at, k.since)) as since
  from (
    select n.* from near n cross join asked a where n.started_at > a.at order by n.fire_at limit 60) n
    cross join asked a
    left join lateral pgrab_tool.kept_at(n.task_id, n.version, n.finished_at, a.at) k on true),
held as materialized (
  select k.key, h.what
  from (
    select w.under as key from waited w where w.what is null and w.under is not null
    group by 1 order by count(*) desc, 1 limit 5) k
    cross join asked a cross join lateral pgrab_tool.limit_held(k.key, a.at, 10000) h),
due as (
  select d.* from (
    select t.id, t.name, t.key, t.kind, t.due_at as since, t.created_at
    from asked a cross join lateral pgrab_tool.due_first(
      least(a.at, statement_timestamp()), '{scheduled,claimed}', 60) t
    union all
    (select t.id, t.name, t.key, t.kind, t.fire_at, t.created_at from pgrab_tool.in_line() t limit 10000)) d
    cross join asked a
  where d.since <= a.at and d.created_at <= a.at
  order by d.since limit 30),
asks as (
  select w.* from (select x.* from pgrab.waits x limit 10000) w cross join asked a
  where w.since <= a.at and not w.paused order by w.since, w.id limit 30)
select 'running' as status, n.task_id, n.name, n.kind, n.node, date_trunc('second', n.started_at) as since,
  date_trunc('second', n.finished_at) as until, n.outcome, null as waited_for
from ran n
union all
select 'waiting', n.task_id, n.name, n.kind, n.node, n.since, date_trunc('second', n.started_at), n.outcome,
  case when n.outcome in ('missed', 'skipped') then 'it was not run: ' || pgrab_tool.times_here(n.error)
    when n.what is not null then n.what
    when h.what is not null then h.what
    when l.running >= c.slots then format('%s was busy: %s of %s', n.node, l.running, c.slots)
    when n.node is null then 'no node took it'
    when n.under is not null and n.claimed_at > a.at then format('a place under limit %s', n.under)
    else format('%s had %s runs', n.node, coalesce(l.running, 0)) end
from waited n cross join asked a
  left join load l on l.node = n.node and l.http = (n.kind = 'http')
  left join held h on h.key = n.under
  left join pgrab.node d on d.name = n.node
  left join lateral pgrab_tool.crew(d, n.kind) c on d.id is not null
union all
select 'waiting', d.id, coalesce(d.name, d.key), d.kind, null,
  date_trunc('second', greatest(d.since, d.created_at)), null, null, pgrab.why(d.id)
from due d
union all
select 'waiting', w.id, w.name, w.kind, null, w.since, null, null, case w.waits_for
  when '(answer)' then 'the answer to its request' when '(members)' then 'its members'
  else 'signal ' || w.waits_for end
from asks w
order by 1, node, since, task_id
