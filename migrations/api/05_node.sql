-- The life of the server: from a start of its shared memory to the end of all sessions.  A recovery after the
-- crash of a process leaves the postmaster as it is and resets the statistics.  See ADR 29.
create or replace function pgrab_internal.server_life() returns bigint
language sql stable
return (date_part('epoch', pg_postmaster_start_time()) * 1e6)::bigint
  + (coalesce(date_part('epoch', pg_stat_get_bgwriter_stat_reset_time()), 0) * 1e6)::bigint;
comment on function pgrab_internal.server_life is
  'A number that each start or recovery of the server changes. Only good for comparing.';

-- What is known of each node, put together from its registration, its last beat, and what operators have said
-- over its own settings.  Every query about nodes reads this view.

-- Plan: one probe of beat_pkey from the end for each node, so an old snapshot does not make it slower.  The
-- numbers are those of enum node_count and enum node_gauge in the program.
-- live: one with nothing in hand beats half as often (idle_beat()), and one late beat is no sign.
create or replace view pgrab.node as
select r.id, r.name, coalesce(b.incarnation, 0) as incarnation, r.host, r.pid, r.pgrab_version, r.strategy,
  coalesce(o.weight, r.weight) as weight, coalesce(o.labels, r.labels) as labels,
  r.kinds, r.owners, r.bounds, r.users, r.slots,
  coalesce(b.state, 'down') as state,
  r.started_at, coalesce(b.heartbeat_at, r.started_at) as heartbeat_at, coalesce(b.beat, 0) as beat,
  r.heartbeat_every, r.dead_after, r.shards, r.overlapping, r.down, coalesce(b.bell, false) as bell,
  coalesce(b.busy, false) as busy, coalesce(b.ill, false) as ill,
  coalesce(b.gauges[1], 0)::int as in_hand, coalesce(b.gauges[2], 0)::int as running,
  coalesce(b.counts[1], 0) as claims_attempted, coalesce(b.counts[2], 0) as claims_won,
  coalesce(b.counts[3], 0) as claims_lost, coalesce(b.counts[4], 0) as claims_stolen,
  coalesce(b.counts[5], 0) as runs_started, coalesce(b.counts[6], 0) as runs_succeeded,
  coalesce(b.counts[7], 0) as runs_failed, coalesce(b.counts[8], 0) as stale_finishes,
  coalesce(b.counts[9], 0) as fences, coalesce(b.counts[10], 0) as recovered,
  coalesce(b.counts[11], 0) as keepers_lost, coalesce(b.counts[12], 0) as log_dropped,
  coalesce(b.gauges[3], 0)::int as to_start, coalesce(b.gauges[4], 0)::int as to_run,
  coalesce(b.gauges[5], 0)::int as to_finish, coalesce(b.gauges[6], 0)::int as children,
  coalesce(b.gauges[7], 0)::int as connections, b.gauges[8] * interval '1 us' as lease_left,
  nullif(b.gauges[9], 0) * interval '1 us' as round_trip,
  b.server_life, b.crews, b.doubts,
  nullif(b.gauges[10], -1)::int as cpu_free, nullif(b.gauges[11], -1)::int as memory_free,
  nullif(b.gauges[12], 0)::int as fitness, b.fitness_why, b.work,
  coalesce(b.state <> 'down' and statement_timestamp() - b.heartbeat_at
    < least(3 * r.heartbeat_every + interval '1 s', r.dead_after), false) as live,
  exists (select from pgrab.drained d where d.node_id = r.id) as draining, r.min_priority,
  r.room, r.memory, coalesce(b.gauges[13], 0) as memory_used,
  case when o.node_id is not null then jsonb_strip_nulls(jsonb_build_object(
    'weight', case when o.weight is not null then r.weight end,
    'labels', case when o.labels is not null then r.labels end)) end as own
from pgrab.registration r
  left join lateral (
    select x.* from pgrab.beat x where x.node_id = r.id order by x.beat desc limit 1) b on true
  left join pgrab.override o on o.node_id = r.id;
comment on view pgrab.node is
  'Nodes: one row per node name. Shorter: pgrab.nodes. Operators can set `weight`, `labels` and `draining` '
  'here: `update pgrab.node set weight = 3 where name = ''a''`. The node follows with its next heartbeat, '
  'and over restarts, until the column is set to null: then its own setting applies again.';
comment on column pgrab.node.id is 'Number of the node; ranks follow the order of the live nodes'' numbers.';
comment on column pgrab.node.name is 'Its `name` setting; one live node per name.';
comment on column pgrab.node.incarnation is 'Random number, new at every start and after every fence.';
comment on column pgrab.node.host is 'Host name of the machine.';
comment on column pgrab.node.pid is 'Process id on that machine.';
comment on column pgrab.node.pgrab_version is 'Version of the program.';
comment on column pgrab.node.strategy is 'Which rule it uses to pick tasks.';
comment on column pgrab.node.weight is
  'Its share under the strategy `weight`: what was written here, or else its `weight` setting.';
comment on column pgrab.node.labels is
  'Its labels; they must contain a task''s `require`: what was written here, or else its `labels` setting.';
comment on column pgrab.node.min_priority is
  'It is reserved: it takes only tasks of this priority and above. Null: it takes all.';
comment on column pgrab.node.room is
  'How many slots a task can have there at most, by kind, even if nothing else ran; "": of all kinds that '
  'are not listed, its workers. A task that takes more is never taken there.';
comment on column pgrab.node.memory is
  'Bytes that the limits (args.limits.memory) of its runs may come to together: its `memory` setting. Null: '
  'they are not counted.';
comment on column pgrab.node.memory_used is 'What the limits of its runs come to now, in bytes.';
comment on column pgrab.node.draining is
  'True: it was told to take no new tasks, here or by pgrab.drain(). (A node that stops is in the state '
  'draining without it.)';
comment on column pgrab.node.own is
  'Its own settings where something else was written here, and what null would give back: {"weight": 1}. '
  'Null: nothing was.';
comment on column pgrab.node.kinds is 'Kinds it runs.';
comment on column pgrab.node.owners is
  'Owners it can log in as, so that it runs their sql tasks; its own role comes first.';
comment on column pgrab.node.bounds is
  'Owners for whom its file allows fewer kinds: {"alice": ["sql", "noop"]}.';
comment on column pgrab.node.users is
  'Users of the operating system: {"node": "pgrab", "run_as": "jobs", "owners": {"etl": "etl"}}. Without a '
  'run_as, shell and exec tasks run as the user of the node.';
comment on column pgrab.node.slots is
  'How many slots it has: runs at once, if each takes one (pgrab.task.slots).';
comment on column pgrab.node.state is 'up, draining (takes no new tasks), down (stopped, or declared dead).';
comment on column pgrab.node.started_at is 'When this incarnation began.';
comment on column pgrab.node.heartbeat_at is
  'Time of the last heartbeat, for readers only: no node is declared dead by it.';
comment on column pgrab.node.beat is
  'Number of the last heartbeat. Other nodes declare this one dead when the number has not changed for '
  'dead_after, by their own monotonic clock.';
comment on column pgrab.node.heartbeat_every is
  'How often it intends to send a heartbeat; half as often with nothing in hand.';
comment on column pgrab.node.dead_after is 'After this long without a heartbeat others may take its tasks.';
comment on column pgrab.node.shards is
  'Shards it reads; the leftmost bit is shard 0. Null: it has not said yet. Readable form: pgrab.ownership.';
comment on column pgrab.node.overlapping is 'True: its strategy lets several nodes read the same shard.';
comment on column pgrab.node.down is
  'True: it is down. For statements that must not look at each node that is; others ask for its state.';
comment on column pgrab.node.bell is
  'True: it sleeps and wants to be told of new tasks. A busy node looks anyway, so inserts need not send a '
  'NOTIFY.';
comment on column pgrab.node.ill is
  'True: it cannot record starts or outcomes now, and takes no tasks. Its log says why.';
comment on column pgrab.node.busy is
  'True: none of its workers has been free for a while; other nodes take its due tasks at once.';
comment on column pgrab.node.in_hand is 'Tasks it holds, claimed and running.';
comment on column pgrab.node.running is
  'How many of its slots are in use: a task that it runs takes one, or as many as it says.';
comment on column pgrab.node.claims_attempted is 'Rows it tried to claim.';
comment on column pgrab.node.claims_won is 'Rows it got.';
comment on column pgrab.node.claims_lost is 'Rows that another node took first, or a user changed.';
comment on column pgrab.node.claims_stolen is 'Rows it got from shards of others.';
comment on column pgrab.node.runs_started is 'Runs begun by this incarnation and those before it.';
comment on column pgrab.node.runs_succeeded is 'Runs that succeeded.';
comment on column pgrab.node.runs_failed is 'Runs that did not succeed.';
comment on column pgrab.node.stale_finishes is 'Results that came too late and were refused by the fence.';
comment on column pgrab.node.fences is 'How often it lost its lease and stopped its own runs.';
comment on column pgrab.node.recovered is 'Tasks of dead nodes it put back.';
comment on column pgrab.node.keepers_lost is
  'Keeper processes that died or froze and were replaced; their runs were stopped.';
comment on column pgrab.node.log_dropped is 'Lines of its log that nobody read in time.';
comment on column pgrab.node.to_start is 'Messages that wait for its starter.';
comment on column pgrab.node.to_run is 'Runs, or batches of instant ones, that wait for a worker.';
comment on column pgrab.node.to_finish is 'Outcomes that wait to be written down.';
comment on column pgrab.node.children is 'Processes of runs and handlers that its keeper looks after.';
comment on column pgrab.node.connections is 'Connections to the database that it has open.';
comment on column pgrab.node.lease_left is
  'What was left of its lease when the last heartbeat was sent. Null: it is down.';
comment on column pgrab.node.round_trip is
  'How long the heartbeat before the last one took. Null: it is down, or has just started.';
comment on column pgrab.node.crews is
  'Its crews, each with how many of its slots are in use and how many it has: {"": [3, 8], "py": [0, 2]}; '
  '"" is the workers, "http" its http slots, the others are its pools of handlers.';
comment on column pgrab.node.doubts is
  'Tasks that it has tried to take, start or put back, and the server did not answer in time, or refused the '
  'start (a trigger?). It tries each again from time to time, by itself. Null: none.';
comment on column pgrab.node.server_life is
  'If its runs outlast a restart of the server: the life of the server in which it sent its last heartbeat. '
  'In another life others wait for two and a half times dead_after. Null: they do not outlast one.';
comment on column pgrab.node.cpu_free is
  'Per cent of its machine''s CPUs that were idle of late, or of what its control group allows. Null: not '
  'known.';
comment on column pgrab.node.memory_free is
  'Per cent of its machine''s memory that is available, or of what its control group allows. Null: not '
  'known.';
comment on column pgrab.node.fitness is
  'How fit its strategy finds it, in per cent of an ordinary node: its share follows. Null: the strategy '
  'does not say; `adaptive` does.';
comment on column pgrab.node.fitness_why is 'Why its fitness is what it is.';
comment on column pgrab.node.work is
  'How its last runs went, for the strategies of all nodes: KIND RUNS SUCCEEDED TIMED TYPICAL and so on. '
  'RUNS of a kind (in hundredths; older ones count for less), how many of them succeeded, and how long '
  'successes typically took, in us. Null: its strategy does not ask.';
comment on column pgrab.node.live is
  'Has it been heard from lately, by the database''s clock: within three of its heartbeats and a second? For '
  'readers only: nodes judge each other by beat. What it holds is its own until its dead_after.';

-- Registrations and beats say the same of a node, but for what others may have said over it.
do $$
declare
  r record;
begin
  for r in
    select t.attrelid::regclass as said_in, t.attname, col_description(n.attrelid, n.attnum) as says
    from pg_attribute n join pg_attribute t on t.attname = n.attname
      and t.attrelid in ('pgrab.registration'::regclass, 'pgrab.beat'::regclass)
    where n.attrelid = 'pgrab.node'::regclass and n.attname <> all ('{weight,labels,slots,shards,down}')
  loop
    execute format('comment on column %s.%I is %L', r.said_in, r.attname, r.says);
  end loop;
end $$;

create or replace function pgrab_internal.crew_of(n pgrab.node, p_kind text) returns text
language sql immutable
return case when p_kind = 'http' and n.crews ? 'http' then 'http' else '' end;
comment on function pgrab_internal.crew_of is
  'The crew of the node that carries out a kind that no pool of handlers has: the workers, or that of http.';

-- Before its first heartbeat a node has said no more than the sum.
create or replace function pgrab_tool.crew(
  n pgrab.node, p_kind text, out running bigint, out slots bigint)
language sql stable
begin atomic
  select coalesce(sum((c.value ->> 0)::bigint), 0), coalesce(sum((c.value ->> 1)::bigint), 0)
  from (select array_agg(p.name) as names from pgrab.pool p where p.node_id = n.id and p.kinds ? p_kind) p
    cross join jsonb_each(coalesce(n.crews, jsonb_build_object('', array[n.running, n.slots]))) c
  where c.key = any (coalesce(p.names, array[pgrab_internal.crew_of(n, p_kind)]));
end;
comment on function pgrab_tool.crew is
  'Who carries this kind out on the node, its workers, its pools for that kind, or http: how many of their '
  'slots are in use and how many there are.';

-- The crew may be smaller than it was made to be: processes of a pool are down.
create or replace function pgrab_tool.room_for(
  n pgrab.node, p_kind text, p_slots integer, p_memory bigint,
  out running bigint, out slots bigint, out small text, out full text)
language sql stable
begin atomic
  select c.running, c.slots,
    case when p_slots > m.slots
        then format('It has %s slots for kind %s, and the task takes %s', m.slots, p_kind, p_slots)
      when p_memory > n.memory then format('Its memory is %s, and the task may use %s (args.limits.memory)',
        pg_size_pretty(n.memory), pg_size_pretty(p_memory)) end,
    case when c.running + p_slots > c.slots then format('Busy: %s of %s%s', c.running, c.slots,
        case when p_slots > 1 then format(', and the task takes %s', p_slots) end)
      when n.memory_used + p_memory > n.memory then format('%s of its memory of %s are in use, and the task '
        'may use %s', pg_size_pretty(n.memory_used), pg_size_pretty(n.memory), pg_size_pretty(p_memory)) end
  from pgrab_tool.crew(n, p_kind) c cross join lateral (
    select least(coalesce(n.room -> p_kind, n.room -> '')::bigint, nullif(c.slots, 0)) as slots) m;
end;
comment on function pgrab_tool.room_for is
  'As crew(); and for a task that takes so many slots and may use so much memory: why it never gets them '
  'there, and why it does not now. Null: it does.';

create or replace function pgrab_internal.here(out system_id bigint, out database bigint)
language sql stable
begin atomic
  select s.system_identifier, d.oid::bigint
  from pg_control_system() s, pg_database d where d.datname = current_database();
end;
comment on function pgrab_internal.here is 'Identifies this database and its server.';

create or replace function pgrab_tool.copied() returns boolean
language sql stable
return (
  select c.system_id is not null and (c.system_id, c.database) is distinct from (p.system_id, p.database)
  from pgrab.cluster c cross join pgrab_internal.here() p);
comment on function pgrab_tool.copied is
  'True: this database was copied or restored from another one, and nobody has said pgrab.adopt() yet.';
