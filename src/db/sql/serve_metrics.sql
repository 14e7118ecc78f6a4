-- Serves: GET /metrics.  One row per figure: its family, at most two labels, its value.
-- Plan: task_due_idx for the twenty rows of each lane and shard that have been due longest; at most twenty
-- thousand tasks that wait in line for a limit or a quota, and as many that cannot run, or wait for
-- something.  Where a count stopped at such a bound, `counts_truncated` is 1.
with seen as materialized (
  -- as lane_of(), for which a reader has no right
  select 1 as part, row(t.owner, t.kind, t.require, t.delivery,
      width_bucket(t.priority, '{-32768,0,1,10,100}'::smallint[]), t.share_key is null, t.prefer,
      t.failover_after, t.slots)::text as lane,
    pgrab.shard(t.id) as shard, t.status, t.due_at as since
  from pgrab_tool.due_until(statement_timestamp(), null, 20) t
  union all
  (select 2, null, 0, t.status, case when t.status = 'scheduled'
      then greatest(t.fire_at, t.created_at) end
   from pgrab.task t where t.due_at is null and t.line is not null and not t.paused
   order by t.line limit 20000)),
due as materialized (
  select count(*) filter (where s.status <> 'running') as due,
    count(*) filter (where s.status <> 'running'
      and s.since <= statement_timestamp() - interval '2 s') as late,
    coalesce(extract(epoch from statement_timestamp() - min(s.since) filter (where s.status <> 'running')), 0)
      as oldest
  from seen s where s.since <= statement_timestamp()),
idle as materialized (
  select count(*) filter (where t.status = 'parked') as parked, count(*) filter (where t.paused) as paused,
    count(*) = 20000 as more
  from (select t.status, t.paused from pgrab.task t where t.due_at is null limit 20000) t),
waits as materialized (
  select case when w.name is null then 'answer' when w.name = '(members)' then 'members' else 'signal' end
    as what
  from (select x.name, x.since from pgrab.wait x limit 20000) w where w.since <= statement_timestamp()),
node as materialized (
  select n.*, v.state as seen_as from pgrab.node n join pgrab.nodes v on v.name = n.name
  order by v.state = 'down', n.name limit 500)
select f.family, f.label, f.value_of, f.label2, f.value_of2, f.value::float8 as value
from (
  select 'tasks_estimate' as family, null as label, null as value_of, null as label2, null as value_of2,
    greatest(c.reltuples, 0)::float8 as value
  from pg_class c where c.oid = 'pgrab.task'::regclass
  union all select 'due_tasks', null, null, null, null, d.due from due d
  union all select 'late_tasks', null, null, null, null, d.late from due d
  union all select 'oldest_due_age_seconds', null, null, null, null, d.oldest from due d
  union all select 'parked_tasks', null, null, null, null, i.parked from idle i
  union all
  select 'waiting_tasks', 'for', n.what, null, null, (select count(*) from waits w where w.what = n.what)
  from unnest('{signal,answer,members}'::text[]) n(what)
  union all select 'paused_tasks', null, null, null, null, i.paused from idle i
  union all
  select 'counts_truncated', null, null, null, null, (i.more or exists (
    select from seen s group by s.part, s.lane, s.shard
    having count(*) = (array[20, 20000])[s.part]))::integer
  from idle i
  union all
  select 'failing_tasks', null, null, null, null, count(*) from (select from pgrab.failing limit 20000) x
  union all select 'overdue_tasks', null, null, null, null, count(*) from pgrab.overdue
  union all select 'all_paused', null, null, null, null, c.paused::integer from pgrab.cluster c
  union all
  select 'nodes', 'state', s.state, null, null, count(n.id)
  from unnest('{up,draining,silent,down}'::text[]) s(state) left join node n on n.seen_as = s.state
  group by s.state
  union all
  select x.family, 'node', n.name, x.label, x.value_of, x.value
  from node n cross join lateral (values
    ('node_up', null, null, (n.seen_as in ('up', 'draining'))::integer::float8),
    ('node_heartbeat_age_seconds', null, null,
      extract(epoch from greatest(statement_timestamp() - n.heartbeat_at, '0'))),
    ('node_slots', null, null, n.slots), ('node_busy', null, null, n.running),
    ('node_in_hand', null, null, n.in_hand),
    ('node_claims', 'result', 'attempted', n.claims_attempted),
    ('node_claims', 'result', 'won', n.claims_won),
    ('node_claims', 'result', 'lost', n.claims_lost), ('node_claims', 'result', 'stolen', n.claims_stolen),
    ('node_runs', 'result', 'succeeded', n.runs_succeeded), ('node_runs', 'result', 'failed', n.runs_failed),
    ('node_stale_finishes', null, null, n.stale_finishes), ('node_fences', null, null, n.fences),
    ('node_recovered', null, null, n.recovered), ('node_keepers_lost', null, null, n.keepers_lost),
    ('node_log_dropped', null, null, n.log_dropped)) x(family, label, value_of, value)
  union all
  -- not for nodes that are down, where the last values mean nothing
  select x.family, 'node', n.name, x.label, x.value_of, x.value
  from node n cross join lateral (values
    ('node_queue', 'queue', 'start', n.to_start), ('node_queue', 'queue', 'run', n.to_run),
    ('node_queue', 'queue', 'finish', n.to_finish), ('node_children', null, null, n.children),
    ('node_connections', null, null, n.connections),
    ('node_lease_left_seconds', null, null, extract(epoch from n.lease_left)),
    ('node_round_trip_seconds', null, null, extract(epoch from n.round_trip)))
    x(family, label, value_of, value)
  where n.seen_as <> 'down' and x.value is not null
  union all
  select x.family, 'node', n.name, 'pool', p.name, x.value
  from node n join pgrab.pool p on p.node_id = n.id cross join lateral (values
    ('node_handlers', p.up), ('node_handlers_wanted', p.processes), ('node_handlers_lost', p.lost))
    x(family, value)
  where n.seen_as <> 'down'
  union all
  select 'history_partitions', null, null, null, null, count(*)
  from pg_inherits i where i.inhparent = 'pgrab.run'::regclass
  union all
  select 'database_connections', null, null, null, null, count(*)
  from pg_stat_activity a where a.datname = current_database() and starts_with(a.application_name, 'pgrab ')
  union all
  select 'oldest_transaction_age_seconds', null, null, null, null,
    coalesce(extract(epoch from max(statement_timestamp() - a.xact_start)), 0)
  from pg_stat_activity a where a.datname = current_database() and a.backend_type = 'client backend'
  union all
  select 'task_dead_rows', null, null, null, null, pg_stat_get_dead_tuples('pgrab.task'::regclass)) f
