-- What is due and what is in hand, by index however many tasks there are; and which node can run what.

-- The one rule for which tasks a node can run: loaders, views and pgrab.explain() all ask here.
create or replace function pgrab_internal.runs(
  p_kinds text[], p_owners text[], p_bounds jsonb, p_kind text, p_owner text)
returns boolean
language sql immutable parallel safe
return p_kind = any (p_kinds) and (p_kind <> 'sql' or p_owner = any (p_owners))
  and coalesce(p_bounds -> p_owner ? p_kind, true);
comment on function pgrab_internal.runs(text[], text[], jsonb, text, text) is
  'Does a node with these kinds, owners and bounds (columns of pgrab.node) run tasks of this kind and owner?';

-- What is due, for views: one probe of the due index for each pair of lane and shard that is not empty.
create or replace function pgrab.due_heads() returns table (lane integer, shard smallint)
language sql stable
begin atomic
  with recursive head as (
    (select t.lane, t.shard from pgrab.task t where t.due_at is not null order by t.lane, t.shard limit 1)
    union all
    select n.lane, n.shard
    from head h cross join lateral (
      select t.lane, t.shard from pgrab.task t
      where t.due_at is not null and (t.lane, t.shard) > (h.lane, h.shard)
      order by t.lane, t.shard limit 1) n)
  select h.lane, h.shard from head h;
end;
comment on function pgrab.due_heads() is
  'The pairs of lane and shard that hold planned tasks.';

-- Meant to be inlined: then the time is a condition of the index scans.  The argument must be a stable
-- expression, or it is evaluated for every row.
create or replace function pgrab.due_until(p_until timestamptz) returns setof pgrab_internal.task
language sql stable
begin atomic
  select t.*
  from pgrab.due_heads() h
    join pgrab.task t on t.lane = h.lane and t.shard = h.shard and t.due_at <= p_until;
end;
comment on function pgrab.due_until(timestamptz) is
  'Tasks that are due by then, held or not, found by index.';

-- Two steps: the first few of each head give a time by which p_limit tasks are due; the second step reads no
-- further than that.
create or replace function pgrab.due_first(
  p_until timestamptz, p_statuses text[], p_limit integer) returns setof pgrab_internal.task
language sql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off
begin atomic
  with head as materialized (select h.lane, h.shard from pgrab.due_heads() h),
  bound as materialized (
    select f.due_at
    from head h cross join lateral (
      select t.due_at from pgrab.task t
      where t.lane = h.lane and t.shard = h.shard and t.due_at <= p_until and t.status = any (p_statuses)
      order by t.due_at limit 1 + p_limit / 256) f
    order by f.due_at offset p_limit - 1 limit 1)
  select f.*
  from head h cross join lateral (
    select t.* from pgrab.task t
    where t.lane = h.lane and t.shard = h.shard and t.status = any (p_statuses)
      and t.due_at <= coalesce((select b.due_at from bound b), p_until)
    order by t.due_at limit p_limit) f
  order by f.due_at limit p_limit;
end;
comment on function pgrab.due_first(timestamptz, text[], integer) is
  'The first p_limit tasks that are due by then, in order, without reading the others.';

-- Found by what the claims wrote (pgrab.hold), not among the due tasks: there may be a million of those.
create or replace function pgrab.in_hand() returns setof pgrab_internal.task
language sql stable
begin atomic
  select t.*
  from (select distinct i.id from pgrab.hold h cross join unnest(h.ids) i(id)) h cross join lateral (
    select x.* from pgrab.task x where x.id = any (array[h.id]) offset 0) t -- as held()
  where t.status in ('claimed', 'running');
end;
comment on function pgrab.in_hand() is 'Tasks that nodes hold, claimed or running.';

-- Only numbers: the owners of lanes, and what they require, are not for every user to see.
create or replace function pgrab_internal.lanes_of(p_kind text) returns setof integer
language sql stable as $$ select distinct l.lane from pgrab.lane l where l.kind = p_kind $$;
comment on function pgrab_internal.lanes_of(text) is
  'The lanes of a kind. Tasks of other kinds may share their numbers.';

create or replace function pgrab.of_kind(p_kind text) returns setof bigint
language sql stable set enable_seqscan = off set enable_bitmapscan = off set jit = off
begin atomic
  select t.id
  from pgrab_internal.lanes_of(p_kind) l(lane) cross join lateral (
    select x.id, x.kind from pgrab.task x where x.lane = l.lane and x.due_at is not null offset 0) t
  where t.kind = p_kind
  union all
  select t.id from pgrab.task t where t.due_at is null and t.kind = p_kind;
end;
comment on function pgrab.of_kind(text) is
  'The live tasks of a kind. Planned ones are found by their lanes, without reading others; of the tasks '
  'that cannot run now, all are read.';
