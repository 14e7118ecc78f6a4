-- What is due and what is in hand, by index however many tasks there are; and which node can run what.

-- The one rule for which tasks a node can run: loaders, views and pgrab.explain() all ask here.
create or replace function pgrab_internal.runs(
  p_kinds text[], p_owners text[], p_bounds jsonb, p_kind text, p_owner text)
returns boolean
language sql immutable parallel safe
return p_kind = any (p_kinds) and (p_kind <> 'sql' or p_owner = any (p_owners))
  and coalesce(p_bounds -> p_owner ? p_kind, true);
comment on function pgrab_internal.runs is
  'Does a node with these kinds, owners and bounds (columns of pgrab.node) run tasks of this kind and owner?';

create or replace function pgrab_internal.has_room(
  p_room jsonb, p_memory bigint, p_kind text, p_slots integer, p_needs bigint)
returns boolean
language sql immutable parallel safe
return coalesce(p_slots <= coalesce(p_room -> p_kind, p_room -> '')::integer, true)
  and coalesce(p_needs <= p_memory, true);
comment on function pgrab_internal.has_room is
  'Could a node with this room and memory (columns of pgrab.node), were it empty, run a task of this kind '
  'that takes so many slots and needs so much memory?';

-- A reader has no right to pgrab.lane.
create or replace function pgrab_internal.any_slots() returns boolean
language sql stable as $$ select exists (select from pgrab.lane l where l.slots > 1) $$;
comment on function pgrab_internal.any_slots is
  'Are there tasks that take several slots? If not, nobody need look how many each takes.';

-- The due index begins with expressions.  A condition on them might show what row security hides, so it would
-- not be used for a role that sees only its own tasks.  So functions that run as the owner of pgrab find the
-- numbers of tasks, and their callers read these tasks as themselves.

-- Keeps a role from walking past the tasks of others; row security decides what it sees.
create or replace function pgrab_internal.sees_only() returns text
language sql stable
return case when row_security_active('pgrab.task'::regclass) and not exists (
  select from pg_roles r where r.rolname in ('pgrab_operator', 'pgrab_read', 'pgrab_node')
    and pg_has_role(r.oid, 'USAGE')) then current_user::text end;
comment on function pgrab_internal.sees_only is
  'The owner of the tasks that the current user sees. Null: it sees those of all.';

-- Of a lane with few tasks one probe of the due index for each pair that is not empty.  Such a probe reads
-- the rest of its page of the index, about 200 entries; one for a shard and a time does not, and costs a
-- fifth.  So of a lane that has tasks in many shards all are named, empty or not.
create or replace function pgrab_internal.due_heads(p_owner text) returns table (lane bytea, shard smallint)
language sql stable
begin atomic
  select l.lane, h.shard
  from (select distinct x.lane from pgrab.lane x where p_owner is null or x.owner = p_owner) l
    cross join lateral (
      select count(*) = 256 as many
      from (
        select from pgrab.task t
        where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
          and t.due_at is not null limit 256) x) w
    cross join lateral (
      select g.shard::smallint as shard from generate_series(0, 1023) g(shard) where w.many
      union all (
      with recursive head as (
        (select pgrab.shard(t.id) as shard from pgrab.task t
        where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
          and t.due_at is not null and not w.many
        order by pgrab.shard(t.id) limit 1)
        union all
        select n.shard
        from head h cross join lateral (
          select pgrab.shard(t.id) as shard from pgrab.task t
          where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
            and pgrab.shard(t.id) > h.shard and t.due_at is not null
          order by pgrab.shard(t.id) limit 1) n)
      select h.shard from head h)) h;
end;
comment on function pgrab_internal.due_heads is
  'The pairs of lane and shard that hold planned tasks of an owner, or of all (null); of a lane that has '
  'many all 1024.';

create or replace function pgrab_internal.due_ids(
  p_owner text, p_until timestamptz, p_statuses text[], p_each bigint) returns setof bigint
language sql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select f.id
  from pgrab_internal.due_heads(p_owner) h cross join lateral (
    select t.id from pgrab.task t
    where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = h.lane
      and pgrab.shard(t.id) = h.shard and t.due_at <= p_until
      and (p_statuses is null or t.status = any (p_statuses))
    order by t.due_at limit p_each) f
$$;
comment on function pgrab_internal.due_ids is
  'Tasks of an owner, or of all (null), that are due by then and have one of these statuses (null: any); of '
  'each lane and shard the first p_each (null: all).';

-- The tasks come one by one: who needs only the first few reads no more.
create or replace function pgrab_tool.due_until(
  p_until timestamptz, p_statuses text[] default null, p_each bigint default null)
returns setof pgrab_internal.task
language sql stable
begin atomic
  select t.*
  from (
    select pgrab_internal.due_ids(pgrab_internal.sees_only(), p_until, p_statuses, p_each) as id) d
    cross join lateral (select x.* from pgrab.task x where x.id = any (array[d.id]) offset 0) t;
end;
comment on function pgrab_tool.due_until is
  'Tasks that are due by then and have one of these statuses (null: any), held or not, found by index; of '
  'each lane and shard the first p_each (null: all).';

-- Two steps: the first few of each head, or for a short list of each 16th, give a time by which p_limit tasks
-- are due; the second step reads no further than that.  Of those due at that very time, of which one INSERT
-- may have made a million, the few of the first step are enough.
create or replace function pgrab_internal.due_first_ids(
  p_owner text, p_until timestamptz, p_statuses text[], p_limit integer) returns setof bigint
language sql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with head as materialized (select h.lane, h.shard from pgrab_internal.due_heads(p_owner) h),
  few as materialized (
    select f.id, f.due_at
    from head h cross join lateral (
      select t.id, t.due_at from pgrab.task t
      where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = h.lane
        and pgrab.shard(t.id) = h.shard and t.due_at <= p_until and t.status = any (p_statuses)
      order by t.due_at limit 1 + p_limit / 1024) f
    where p_limit > 64 or h.shard % 16 = 0),
  bound as materialized (select f.due_at from few f order by f.due_at offset p_limit - 1 limit 1)
  select x.id
  from (
    select f.id, f.due_at
    from head h cross join lateral (
      select t.id, t.due_at from pgrab.task t
      where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = h.lane
        and pgrab.shard(t.id) = h.shard and t.status = any (p_statuses)
        and t.due_at <= coalesce((select b.due_at - interval '1 us' from bound b), p_until)
      order by t.due_at limit p_limit) f
    union all
    select f.id, f.due_at from few f where f.due_at = (select b.due_at from bound b)) x
  order by x.due_at limit p_limit
$$;
comment on function pgrab_internal.due_first_ids is
  'The first p_limit tasks of an owner, or of all (null), that are due by then, without reading the others.';

create or replace function pgrab_tool.due_first(
  p_until timestamptz, p_statuses text[], p_limit integer) returns setof pgrab_internal.task
language sql stable
begin atomic
  select t.*
  from (
    select pgrab_internal.due_first_ids(pgrab_internal.sees_only(), p_until, p_statuses, p_limit) as id) d
    cross join lateral (select x.* from pgrab.task x where x.id = any (array[d.id]) offset 0) t
  order by t.due_at;
end;
comment on function pgrab_tool.due_first is
  'The first p_limit tasks that are due by then, in order, without reading the others.';

-- Counts without reading the tasks again: whose they are is known from their lanes.
create or replace function pgrab_internal.due_counts(
  p_owner text, out due bigint, out late bigint, out oldest timestamptz)
language sql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with head as materialized (select h.lane, h.shard from pgrab_internal.due_heads(p_owner) h),
  seen as materialized (
    select f.due_at
    from head h cross join lateral (
      select t.due_at from pgrab.task t
      where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = h.lane
        and pgrab.shard(t.id) = h.shard and t.due_at <= statement_timestamp()
        and t.status in ('scheduled', 'claimed')
      order by t.due_at) f
    limit 10000)
  select count(*), count(*) filter (where s.due_at <= statement_timestamp() - interval '2 s'),
    case when count(*) < 10000 then min(s.due_at) else (
      select min(f.due_at)
      from head h cross join lateral (
        select t.due_at from pgrab.task t
        where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = h.lane
          and pgrab.shard(t.id) = h.shard and t.due_at <= statement_timestamp()
          and t.status in ('scheduled', 'claimed')
        order by t.due_at limit 1) f) end
  from seen s
$$;
comment on function pgrab_internal.due_counts is
  'Of the tasks of an owner, or of all (null), that are due and have not started: how many, how many of '
  'them for more than two seconds, both among ten thousand, and since when the first.';

-- Found by what the claims wrote (pgrab.hold), not among the due tasks: there may be a million of those.
create or replace function pgrab_tool.in_hand() returns setof pgrab_internal.task
language sql stable
begin atomic
  select t.*
  from (select distinct i.id from pgrab.hold h cross join unnest(h.ids) i(id)) h cross join lateral (
    select x.* from pgrab.task x where x.id = any (array[h.id]) offset 0) t -- as held()
  where t.status in ('claimed', 'running');
end;
comment on function pgrab_tool.in_hand is 'Tasks that nodes hold, claimed or running.';

create or replace function pgrab_internal.kind_ids(p_owner text, p_kind text) returns setof bigint
language sql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select t.id
  from (
    select distinct l.lane from pgrab.lane l
    where l.kind = p_kind and (p_owner is null or l.owner = p_owner)) l
    cross join lateral (
      select x.id from pgrab.task x
      where pgrab_tool.lane_of(row(x.*)::pgrab_internal.task) = l.lane
        and x.due_at is not null) t
$$;
comment on function pgrab_internal.kind_ids is 'The planned tasks of a kind and an owner, or of all (null).';

create or replace function pgrab_tool.of_kind(p_kind text) returns setof bigint
language sql stable
begin atomic
  select t.id
  from (select pgrab_internal.kind_ids(pgrab_internal.sees_only(), p_kind) as id) k
    cross join lateral (select x.id, x.kind from pgrab.task x where x.id = any (array[k.id]) offset 0) t
  where t.kind = p_kind
  union all
  select t.id from pgrab.task t where t.due_at is null and t.kind = p_kind;
end;
comment on function pgrab_tool.of_kind is
  'The live tasks of a kind. Planned ones are found by their lanes, without reading others; of the tasks '
  'that cannot run now, all are read.';
