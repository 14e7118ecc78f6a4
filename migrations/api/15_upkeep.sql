-- Periodic upkeep of the cluster's tables: makes daily partitions of the history ahead of time and drops old
-- ones; removes nodes that no longer exist.  Done by any one node (pgrab.duty), at start and every hour.

-- The first node to ask when it is time takes the duty; the others skip it.
create or replace function pgrab_internal.duty_take(p_duty text, p_every interval) returns boolean
language plpgsql set enable_seqscan = off as $$
begin
  perform from pgrab.duty d
  where d.duty = p_duty and (d.done_at < clock_timestamp() - p_every or d.done_at > clock_timestamp())
  for update skip locked;
  if found then
    update pgrab.duty d set done_at = clock_timestamp() where d.duty = p_duty;
  end if;
  return found;
end $$;
comment on function pgrab_internal.duty_take is
  'Is this duty, which one node does for all, due? If so the caller holds it until its transaction ends.';

-- ----------------------------------------------------------------------------------------------- the history

create or replace function pgrab_internal.today() returns date
language sql as $$ select (clock_timestamp() at time zone 'UTC')::date $$;
comment on function pgrab_internal.today is 'The day of the history that is being written now.';

-- 0001_schema.sql creates them; an operator who drops all partitions drops these, too.
create or replace function pgrab_internal.rest_make() returns void
language plpgsql as $$
begin
  if to_regclass('pgrab.run_rest') is null then
    create table pgrab.run_rest partition of pgrab.run default;
    alter table pgrab.run_rest replica identity full;
  end if;
  if to_regclass('pgrab.event_rest') is null then
    create table pgrab.event_rest partition of pgrab.event default;
    alter table pgrab.event_rest replica identity full;
  end if;
end $$;
comment on function pgrab_internal.rest_make is 'Makes the default partitions if they are missing.';

-- From one day to the next, so that it costs days and not rows.  (With BEGIN ATOMIC nobody could drop the
-- default partitions.)
create or replace function pgrab_internal.rest_days() returns table (parent text, day date)
language sql stable set timezone = 'UTC' set enable_seqscan = off as $$
  with recursive run(at) as (
    select min(r.finished_at) from pgrab.run_rest r
    union all
    select (select min(r.finished_at) from pgrab.run_rest r where r.finished_at >= d.at::date + 1)
    from run d where d.at is not null),
  event(at) as (
    select min(r.at) from pgrab.event_rest r
    union all
    select (select min(r.at) from pgrab.event_rest r where r.at >= d.at::date + 1)
    from event d where d.at is not null)
  select 'run', r.at::date from run r where r.at is not null
  union all
  select 'event', e.at::date from event e where e.at is not null
$$;
comment on function pgrab_internal.rest_days is 'The days that have rows in the default partitions.';

-- Created apart and then attached, which does not block readers and writers of the history.  Rows that
-- arrived before their day had a partition are in the default partition, and are moved, unless they are too
-- many: then they stay there.  A partition has no key, so without a replica identity a publication for all
-- tables would forbid changing its rows.
create or replace function pgrab_internal.day_make(p_table text, p_day date) returns text
language plpgsql as $$
declare
  c_name constant text := p_table || '_' || to_char(p_day, 'YYYYMMDD');
  c_by constant text := case p_table when 'run' then 'finished_at' else 'at' end;
  c_from constant timestamptz := p_day::timestamp at time zone 'UTC';
  c_to constant timestamptz := (p_day + 1)::timestamp at time zone 'UTC';
  c_most constant integer := 100000; -- to move more while everybody waits would take longer than it may
  v_many boolean;
begin
  if to_regclass('pgrab.' || c_name) is null then
    execute format('select count(*) > $1 from (
      select from pgrab.%1$I r where r.%2$I >= $2 and r.%2$I < $3 limit $1 + 1) r', p_table || '_rest', c_by)
    into v_many using c_most, c_from, c_to;
  end if;
  if v_many is not false then
    return null;
  end if;
  execute format('create table pgrab.%I (like pgrab.%I including defaults including constraints)
    with (autovacuum_vacuum_insert_threshold = 1000000)', c_name, p_table);
  execute format('alter table pgrab.%I replica identity full', c_name);
  execute format('lock table pgrab.%I in access exclusive mode', p_table || '_rest');
  execute format('with rest as (
      delete from pgrab.%1$I r where r.%2$I >= %3$L and r.%2$I < %4$L returning r.*)
    insert into pgrab.%5$I select r.* from rest r', p_table || '_rest', c_by, c_from, c_to, c_name);
  execute format('alter table pgrab.%I attach partition pgrab.%I for values from (%L) to (%L)',
    p_table, c_name, c_from, c_to);
  execute format('comment on table pgrab.%I is %L', c_name,
    case p_table when 'run' then 'History of ' else 'Events of ' end || p_day
      || '; see pgrab.' || p_table || '.');
  return c_name;
end $$;
comment on function pgrab_internal.day_make is
  'Makes the partition of the history (run) or the events (event) for a day. Null: there is one already, or '
  'too much of it is in the default partition.';

-- The coming days, and those that have rows in the default partitions.
create or replace function pgrab_internal.days_make(p_ahead integer) returns setof text
language sql as $$
  select m.name
  from (
    select p.parent, g::date as day from (values ('run'), ('event')) p(parent), generate_series(
      pgrab_internal.today() - 1, pgrab_internal.today() + p_ahead, interval '1 day') g
    union
    select r.parent, r.day from pgrab_internal.rest_days() r
    order by 1 desc, 2) d
    cross join lateral pgrab_internal.day_make(d.parent, d.day) m(name)
  where m.name is not null
$$;
comment on function pgrab_internal.days_make is 'Makes the missing partitions, this many days ahead.';

-- Runs that a running chain may still need stay.
create or replace function pgrab_internal.runs_delete(p_ids bigint[], p_until timestamptz[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  delete from pgrab.run r using unnest((select p_ids), (select p_until)) g(id, until)
  where r.task_id = any (array[g.id]) and r.finished_at <= g.until
    and not exists (select from pgrab.chain c where c.chain_id = r.chain_id);
end $$;
comment on function pgrab_internal.runs_delete is 'Deletes the history of tasks, each until a time.';

-- The history of tasks with a `keep` shorter than the retention.  Of a live task, at most ten thousand rows
-- at once, and no more tasks than two seconds allow: in any order, so that each has its turn.  Of a task that
-- has ended, the last run carries `keep`, and the attempts before it go with it.
create or replace function pgrab_internal.runs_leave(p_retention interval) returns void
language plpgsql set enable_seqscan = off as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '2 s';
  t record;
begin
  for t in
    select x.id, clock_timestamp() - x.keep as before from pgrab.task x where x.keep is not null
    order by random()
  loop
    exit when clock_timestamp() > c_until;
    perform pgrab_internal.runs_delete(array[t.id], array[(
      select max(o.finished_at) from (
        select x.finished_at from pgrab.run x where x.task_id = t.id and x.finished_at < t.before
        order by x.finished_at limit 10000) o)]);
  end loop;
  perform pgrab_internal.runs_delete(array_agg(g.task_id), array_agg(g.until))
  from (
    select x.task_id, clock_timestamp() - (x.definition ->> 'keep')::interval as until from pgrab.run x
    where x.definition ? 'keep' and x.finished_at > clock_timestamp() - p_retention - interval '2 days'
      and x.finished_at < clock_timestamp() - (x.definition ->> 'keep')::interval
      and not exists (select from pgrab.chain c where c.chain_id = x.chain_id)
    order by x.finished_at limit 10000) g;
end $$;
comment on function pgrab_internal.runs_leave is
  'Deletes history that is older than its task''s `keep`; of tasks that have ended only within the '
  'retention: see day_leave() and rest_leave().';

-- When a task wants its history kept for longer, everything else in a partition is deleted, p_rows at once.
create or replace function pgrab_internal.day_leave(p_name text, p_day date, p_rows integer default 200000)
returns boolean
language plpgsql as $$
declare
  c_age constant interval := clock_timestamp() - p_day::timestamp at time zone 'UTC';
  c_kept constant bigint[] := case when p_name like 'run%' then array(
    select t.id from pgrab.task t where t.keep is not null and t.keep > c_age
    union
    select r.task_id from pgrab.run r
    where r.definition ? 'keep' and (r.definition ->> 'keep')::interval > c_age) end;
  v_kept boolean := false;
begin
  if cardinality(c_kept) > 0 then
    execute format('select exists (select from pgrab.%I r where r.task_id = any ($1))', p_name)
    into v_kept using c_kept;
  end if;
  if v_kept then
    execute format('delete from pgrab.%1$I r where r.ctid = any (array(
      select x.ctid from pgrab.%1$I x where x.task_id <> all ($1) limit $2))', p_name) using c_kept, p_rows;
  end if;
  return not v_kept;
end $$;
comment on function pgrab_internal.day_leave is
  'Deletes some of what need not be kept of a partition of the history. True: it can be dropped.';

-- Nothing of it is done when a reader holds one of them: the next round tries again.
create or replace function pgrab_internal.partitions_drop(p_names text[]) returns text[]
language plpgsql set lock_timeout = '100ms' as $$
declare
  v_name text;
begin
  foreach v_name in array p_names loop
    execute format('drop table pgrab.%I', v_name);
  end loop;
  return p_names;
exception when lock_not_available then
  return '{}';
end $$;
comment on function pgrab_internal.partitions_drop is 'Drops these partitions; returns those, or none.';

-- Of the days that have no partition.
create or replace function pgrab_internal.rest_leave(p_retention interval, p_rows integer default 200000)
returns void
language plpgsql set enable_seqscan = off as $$
declare
  c_before constant timestamptz := clock_timestamp() - p_retention;
  c_kept constant bigint[] := array(
    select t.id from pgrab.task t where t.keep is not null and t.keep > p_retention
    union
    select r.task_id from pgrab.run_rest r
    where r.definition ? 'keep' and (r.definition ->> 'keep')::interval > p_retention
      and r.finished_at > clock_timestamp() - (r.definition ->> 'keep')::interval);
begin
  delete from pgrab.run_rest r
  where r.ctid = any (array(
    select x.ctid from pgrab.run_rest x
    where x.finished_at < c_before and x.task_id <> all (c_kept) order by x.finished_at limit p_rows));
  delete from pgrab.event_rest e
  where e.ctid = any (array(
    select x.ctid from pgrab.event_rest x where x.at < c_before order by x.at limit p_rows));
end $$;
comment on function pgrab_internal.rest_leave is
  'Deletes rows of the default partitions that are older than the retention, so many at once.';

-- Dropping takes a lock that finishes wait for.  So it comes last in its transaction, behind all that takes
-- time, and waits only briefly for readers of the history.
create or replace function pgrab_internal.days_drop(p_retention interval) returns setof text
language plpgsql as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '2 s';
  v_name text;
  v_over text[] := '{}';
begin
  for v_name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent in ('pgrab.run'::regclass, 'pgrab.event'::regclass)
      and c.relname ~ '^(run|event)_[0-9]{8}$' and to_date(right(c.relname, 8), 'YYYYMMDD') + 1
        <= (clock_timestamp() at time zone 'UTC' - p_retention)::date
    order by random()
  loop
    exit when clock_timestamp() > c_until; -- the next round goes on
    if pgrab_internal.day_leave(v_name, to_date(right(v_name, 8), 'YYYYMMDD')) then
      v_over := v_over || v_name;
    end if;
  end loop;
  return query select unnest(pgrab_internal.partitions_drop(v_over));
end $$;
comment on function pgrab_internal.days_drop is
  'Drops the partitions of the history and the events that are older than the retention.';

-- --------------------------------------------------------------------------------------- nodes that are gone

-- Of those that are down the last hundred stay until the retention is over, and what went down within the
-- last hour.  A node that registers again at this moment has a new started_at by the time its row is locked.
create or replace function pgrab_internal.nodes_leave(p_retention interval) returns setof text
language sql
begin atomic
  with gone as (
    delete from pgrab.registration r
    where r.id in (
      select x.id
      from pgrab.registration x join (
        select d.*, row_number() over (order by d.heartbeat_at desc, d.id) as place
        from pgrab.node d where d.state = 'down') n on n.id = x.id and n.started_at = x.started_at
      where greatest(n.heartbeat_at, n.started_at) < clock_timestamp()
          - case when n.place > 100 then least(p_retention, interval '1 hour') else p_retention end
        and not exists (select from pgrab.hold h where h.incarnation = n.incarnation)
      for update of x skip locked)
    returning r.id, r.name),
  drained as (
    delete from pgrab.drained d using gone g where d.node_id = g.id),
  overridden as (
    delete from pgrab.override o using gone g where o.node_id = g.id)
  select g.name from gone g;
end;
comment on function pgrab_internal.nodes_leave is
  'Removes the nodes that have been down for longer than the retention; or for an hour, when a hundred '
  'others went down later.';

-- A beat deletes the one before it, unless another session has that locked.
create or replace function pgrab_internal.beats_leave() returns void
language sql
begin atomic
  delete from pgrab.beat b
  where (b.node_id, b.beat) in (
    select x.node_id, x.beat from pgrab.beat x
    where exists (select from pgrab.beat n where n.node_id = x.node_id and n.beat > x.beat)
      or not exists (select from pgrab.registration r where r.id = x.node_id)
    for update of x skip locked);
end;
comment on function pgrab_internal.beats_leave is
  'Deletes all beats but the last of each node, and those of nodes that are gone.';

-- ----------------------------------------------------------------------------------------------------- lanes

-- A task whose lane is missing would never be found.  The lane may have been removed while the transaction
-- that inserted the task was open and still saw it.  From one lane of the due index to the next, one probe
-- each.
create or replace function pgrab_internal.lanes_mend() returns bigint
language sql set enable_seqscan = off as $$
  with recursive head(id, lane) as (
    (select t.id, pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) from pgrab.task t
    where t.due_at is not null
    order by pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) limit 1)
    union all
    select n.id, n.lane from head h cross join lateral (
      select t.id, pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) as lane
      from pgrab.task t
      where t.due_at is not null
        and pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) > h.lane
      order by pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) limit 1) n)
  select coalesce(pgrab_internal.lanes_add(
    array_agg(pgrab_internal.lane(row(t.*)::pgrab_internal.task)), false), 0)
  from head h cross join lateral (
    select x.* from pgrab.task x where x.id = any (array[h.id]) offset 0) t
$$;
comment on function pgrab_internal.lanes_mend is 'Adds missing lanes that are not empty. Returns how many.';

-- Empty lanes go in 64 slices.  Those of tasks that cannot run now stay, because nothing would add them when
-- the tasks become due.
create or replace function pgrab_internal.lanes_leave(p_slice bigint) returns bigint
language sql as $$
  with gone as (
    delete from pgrab.lane l where l.id in (
      select pgrab_internal.lanes_empty(array(
        select x.id from pgrab.lane x where x.id % 64 = p_slice % 64 limit 1000 for update skip locked)))
    returning l.id)
  select count(*) from gone
$$;
comment on function pgrab_internal.lanes_leave is
  'Removes empty lanes, a thousand at most, of one of 64 slices. Returns how many.';

-- Serves: duties.sql, which may be asked only once a minute: 50 s, so that none of these comes a moment too
-- early.  So each lane is looked at about once in an hour.
create or replace function pgrab_internal.lanes_tick() returns bigint
language sql as $$
  select case when pgrab_internal.duty_take('lanes', '50 s')
    then pgrab_internal.lanes_leave(extract(epoch from clock_timestamp())::bigint / 60)
      + pgrab_internal.lanes_mend() end
$$;
comment on function pgrab_internal.lanes_tick is
  'Once a minute, on one node: adds missing lanes, and removes some of the empty ones.';

-- ------------------------------------------------------------------------------------------------- all of it

-- Serves: days.sql.  In a transaction of its own, so that nothing else keeps the partitions from being made.
create or replace function pgrab_internal.days_ahead() returns bigint
language plpgsql set lock_timeout = '2s' set timezone = 'UTC' as $$
begin
  perform from pgrab.duty d where d.duty = 'upkeep' for update skip locked;
  if not found then
    return 0; -- another node is doing it
  end if;
  perform pgrab_internal.rest_make();
  return (select count(*) from pgrab_internal.days_make(3));
end $$;
comment on function pgrab_internal.days_ahead is 'Makes the partitions of the coming days. Returns how many.';

-- The slow steps: they take no locks that others wait for.
create or replace function pgrab_internal.over_leaves(p_retention interval) returns void
language plpgsql as $$
begin
  update pgrab.duty d set done_at = clock_timestamp() where d.duty = 'upkeep';
  begin
    -- chains whose last two links ended at the same moment
    perform pgrab_internal.chains_end(array(select c.chain from pgrab.chain c where c.root is null));
  exception when lock_not_available then
    null; -- another session has one of them locked: the next round does it
  end;
  -- requests for runs of tasks that are gone, on nodes that are gone
  delete from pgrab.cancel_request c
  where not exists (select from pgrab.task t where t.id = c.task_id and t.version = c.version)
    and c.incarnation <> all (array(select n.incarnation from pgrab.node n where n.state <> 'down'));
  -- what the runs of nodes that are gone reported
  perform pgrab_internal.live_leave(x.incarnation)
  from (
    select l.incarnation from pgrab.live l union select r.incarnation from pgrab.live_request r
    union select o.incarnation from pgrab.live_output o) x
  where x.incarnation <> all (array(select n.incarnation from pgrab.node n where n.state <> 'down'));
  perform pgrab_internal.lanes_mend();
  -- Who takes a node down says so in its registration, unless another session has that locked.  A node that
  -- registers again at this moment has a new started_at by the time its row is locked.
  update pgrab.registration r set down = true
  where r.id in (
    select x.id from pgrab.registration x join pgrab.node n on n.id = x.id and n.started_at = x.started_at
    where not n.down and n.state = 'down'
    for update of x skip locked);
  perform pgrab_internal.nodes_leave(p_retention);
  perform pgrab_internal.beats_leave();
  perform pgrab_internal.node_incidents_end();
  perform pgrab_internal.runs_leave(p_retention);
  perform pgrab_internal.rest_leave(p_retention);
  -- definitions that were replaced longer ago than the retention and that no run refers to any more
  update pgrab.definition d set until = clock_timestamp()
  where d.until is null and not exists (select from pgrab.task t where t.id = any (array[d.task_id]));
  with span as (
    select d.task_id, d.version, d.until,
      lead(d.version, 1, 9223372036854775807) over (partition by d.task_id order by d.version) as next
    from pgrab.definition d)
  delete from pgrab.definition d using span s
  where s.task_id = d.task_id and s.version = d.version and s.until < clock_timestamp() - p_retention
    and not exists (select from pgrab.run r
      where r.task_id = s.task_id and r.version >= s.version and r.version < s.next);
end $$;
comment on function pgrab_internal.over_leaves is
  'Removes what is over: rows of chains, requests, nodes, lanes, history that its task does not want kept, '
  'and definitions.';

-- Serves: upkeep.sql.
create or replace function pgrab_internal.upkeep(p_retention interval) returns setof text
language plpgsql set lock_timeout = '2s' set timezone = 'UTC' as $$
begin
  perform from pgrab.duty d where d.duty = 'upkeep' for update skip locked;
  if not found then
    return; -- another node is doing it
  end if;
  perform pgrab_internal.over_leaves(p_retention);
  return query select pgrab_internal.days_drop(p_retention);
end $$;
comment on function pgrab_internal.upkeep is
  'Removes what is over, and drops the partitions that are older than the retention. Returns those.';

create or replace function pgrab.upkeep(p_retention interval default '7 days', p_days_ahead integer default 3)
returns table (what text, partition text)
language plpgsql security definer
set lock_timeout = '2s'
set search_path = pg_catalog, pg_temp
set timezone = 'UTC' as $$
begin
  if (p_retention >= interval '1 day' and p_days_ahead between 0 and 366) is not true then
    raise exception using errcode = '22023',
      message = format('upkeep cannot keep %s of the history and make %s days ahead',
        coalesce(p_retention::text, 'null'), coalesce(p_days_ahead::text, 'null')),
      hint = 'Keep 1 day or more, and make 0 to 366 days ahead.';
  end if;
  perform from pgrab.duty d where d.duty = 'upkeep' for update skip locked;
  if not found then
    return; -- another node is doing it
  end if;
  insert into pgrab.event (what, role, detail)
  values ('upkeep', session_user, jsonb_build_object('retention', p_retention, 'days_ahead', p_days_ahead));
  perform pgrab_internal.rest_make();
  perform pgrab_internal.over_leaves(p_retention);
  return query select 'made', m from pgrab_internal.days_make(p_days_ahead) m;
  return query select 'dropped', d from pgrab_internal.days_drop(p_retention) d;
end $$;
comment on function pgrab.upkeep(interval, integer) is
  'Makes the coming daily partitions of the history and drops those older than the retention; removes nodes '
  'that have been down for longer than that, and all but the last hundred after an hour. Nodes do the same '
  'by themselves. Recorded as an event.';
