-- Chains at work, first part: links that end, and the children they release.  See 28_chain_graph.sql, and
-- 28_chain_run.sql for the end of a chain's run.

-- Declares, until the end of the transaction or the next call, whether deleted rows are links that have ended
-- ('on') or were deleted by a user ('').  Returns the previous declaration.  While it is 'on' the setting
-- holds a secret, so that only this function can make the declaration; the triggers know its hash.  It is a
-- call, because only a superuser may create a function with a SET clause for a custom setting.
create or replace function pgrab_internal.link_ends(p_value text) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_before constant text := coalesce(current_setting('pgrab.link_ends', true), '');
begin
  perform set_config('pgrab.link_ends',
    case when p_value = 'on' then (select s.value from pgrab_internal.key s where s.name = 'link_ends')
      else p_value end, true);
  return v_before;
end $$;
comment on function pgrab_internal.link_ends is
  'Declares that rows deleted from here on are links that have ended (on), or not (an empty text).';

create or replace function pgrab_internal.link_ending() returns boolean
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(current_setting('pgrab.link_ends', true), '') <> '' and exists (
    select from pgrab_internal.key s
    where s.name = 'link_ends' and s.value = current_setting('pgrab.link_ends', true))
$$;
comment on function pgrab_internal.link_ending is 'True: the system itself is writing, see link_ends().';

-- The edges above a link go with it.  Those below stay as long as the child, which finds its parents' outputs
-- by them.
create or replace function pgrab_internal.edges_leave(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_before constant text := pgrab_internal.link_ends('on');
begin
  delete from pgrab.edge e using unnest((select p_ids)) i(id) where e.child_id = any (array[i.id]);
  perform set_config('pgrab.link_ends', v_before, true);
end $$;
comment on function pgrab_internal.edges_leave is 'Deletes the edges above links that have left.';

-- For chains that run once: those in which only links are left that a parked one had kept from starting (or
-- whose end was recorded by a finish that began before the chain lost its schedule).  Whether one is over is
-- looked up without a lock, so that links do not wait for each other's commits.  When the last two links end
-- at the same moment, neither may see it; then pgrab.upkeep() does.
create or replace function pgrab_internal.chains_end(p_chains bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_over bigint[] := array(
    select i.chain from unnest((select p_chains)) i(chain)
      cross join lateral (select c.root from pgrab.chain c where c.chain = i.chain offset 0) c
      cross join lateral (
        select exists (
          select from pgrab.task t
          where t.chain = i.chain and not pgrab_internal.is_over(t.status) offset 0) as goes_on) t
    where c.root is null and not t.goes_on order by 1);
begin
  if v_over = '{}' then
    return;
  end if;
  perform from unnest((select v_over)) o(chain) cross join lateral (
    select from pgrab.task t where t.chain = o.chain order by t.id for update) l;
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version, 'leave') order by t.id))
  from unnest((select v_over)) o(chain)
    cross join lateral (select t.id, t.version from pgrab.task t where t.chain = o.chain offset 0) t;
  delete from pgrab.chain c using unnest((select v_over)) o(chain) where c.chain = any (array[o.chain]);
  if pg_relation_size('pgrab.edge_change') > 0 then
    delete from pgrab.edge_change g where g.chain = any (v_over);
  end if;
  if pg_relation_size('pgrab.skipping') > 0 then
    delete from pgrab.skipping s where s.chain = any (v_over);
  end if;
end $$;
comment on function pgrab_internal.chains_end is
  'Removes those of these chains that run once and have ended.';

create or replace function pgrab_internal.links_free(p_ids bigint[], p_fires timestamptz[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version, 'free', p_fire_at => f.fire,
    p_needs => 0, p_due_at => case when not t.paused
      then greatest(clock_timestamp(), t.run_at) + pgrab_internal.jitter_of(t.id, t.jitter) end)))
  from unnest((select p_ids), (select p_fires)) f(id, fire)
    join pgrab.task t on t.id = any (array[f.id])
      and case when t.status = 'waiting' and t.incarnation is null then true end;
end $$;
comment on function pgrab_internal.links_free is 'Makes waiting links due without the end of a parent.';

-- The part of chain_advance() that finds the children.  `offset 0` makes the plan go from each parent to its
-- children, never the other way round, however many children the statistics expect.
create type pgrab_internal.links_below as (
  child bigint[], n integer[], bad boolean[], ran integer[], fire timestamptz[]);
comment on type pgrab_internal.links_below is
  'The children of links that have ended, in id order. For each: how many of its parents have ended, whether '
  'it can never start now, how many of those parents have run, and their planned time.';

create or replace function pgrab_internal.links_below(
  p_ids bigint[], p_ends text[], p_fires timestamptz[], p_changes boolean)
returns pgrab_internal.links_below
language plpgsql stable as $$
declare
  v_below pgrab_internal.links_below;
begin
  with w as (
    select * from unnest((select p_ids), (select p_ends), (select p_fires)) w(id, ended, fire)),
  x as (
    select w.id as parent, x.child, x.run_if, w.ended, w.fire
    from w cross join lateral (
      select t.id as child, t.run_if from pgrab.task t where t.parent_id = w.id offset 0) x
    union all
    select w.id, x.child_id, x.run_if, w.ended, w.fire
    from w cross join lateral (
      select d.child_id, d.run_if from pgrab.edge d where d.parent_id = w.id offset 0) x),
  e as (
    select x.* from x
    where not (p_changes and exists (
      select from pgrab.edge_change g where g.parent_id = x.parent and g.child_id = x.child and g.added))
    union all
    select w.id, g.child_id, g.run_if, w.ended, w.fire
    from w cross join lateral (
      select g.child_id, g.run_if from pgrab.edge_change g
      where p_changes and g.parent_id = w.id and not g.added offset 0) g),
  c as (
    select e.child, count(*)::integer as n, bool_or(not pgrab_internal.run_if_met(e.run_if, e.ended)) as bad,
      (count(*) filter (where e.ended <> 'skipped'))::integer as ran, max(e.fire) as fire
    from e group by e.child order by e.child)
  select array_agg(c.child), array_agg(c.n), array_agg(c.bad), array_agg(c.ran), array_agg(c.fire)
  into v_below from c;
  return v_below;
end $$;
comment on function pgrab_internal.links_below is
  'The children that the ends of links concern. p_changes: edges below some of them have changed in this '
  'run of their chain.';

-- The same without pgrab.edge, for a fraction of the cost.
create or replace function pgrab_internal.links_below_only(
  p_ids bigint[], p_ends text[], p_fires timestamptz[]) returns pgrab_internal.links_below
language plpgsql stable as $$
declare
  v_below pgrab_internal.links_below;
begin
  select array_agg(c.child), array_agg(1), array_agg(c.bad), array_agg(c.ran), array_agg(c.fire)
  into v_below
  from (
    select x.child, not pgrab_internal.run_if_met(x.run_if, w.ended) as bad,
      case when w.ended <> 'skipped' then 1 else 0 end as ran, w.fire
    from unnest((select p_ids), (select p_ends), (select p_fires)) w(id, ended, fire)
      cross join lateral (
        select t.id as child, t.run_if from pgrab.task t where t.parent_id = w.id offset 0) x
    order by x.child) c;
  return v_below;
end $$;
comment on function pgrab_internal.links_below_only is
  'The children that the ends of links concern, for links that have children by parent_id alone.';

-- ids, chains, fires: links that can never start now.  going: chains of the others.
create type pgrab_internal.links_counted as (
  counted bigint[], going bigint[], skipped bigint[], chains bigint[], fires timestamptz[]);
comment on type pgrab_internal.links_counted is 'What has become of links that were counted down.';

-- Their signals may have come already.
create or replace function pgrab_internal.links_ask(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  perform pgrab_internal.waits_begin(p_ids);
  perform pgrab_internal.move(array_agg(
    pgrab_internal.signal_move(row(t.*)::pgrab_internal.task) order by t.id))
  from unnest((select p_ids)) i(id) join pgrab.task t on t.id = any (array[i.id])
  where not pgrab_internal.lacks_signal(t.id, t.wait_for, 'signal');
end $$;
comment on function pgrab_internal.links_ask is
  'Links whose parents have ended wait for their signals from now on.';

-- One of the four statements that make moves without move(): it runs for each link.  Another parent may have
-- counted the link down a moment ago, so the row decides as it is under its lock.
create or replace function pgrab_internal.links_count(b pgrab_internal.links_below)
returns pgrab_internal.links_counted
language plpgsql as $$
declare
  c_unmet constant boolean := true = any (b.bad) or 0 = any (b.ran);
  v_counted pgrab_internal.links_counted;
  v_shards smallint[];
  v_asks bigint[];
begin
  if c_unmet then -- all rows are locked in one order
    perform from unnest((select b.child)) c(child) cross join lateral (
      select from pgrab.task t where t.id = any (array[c.child]) for update) l;
  end if;
  with counted as (
    update pgrab.task t
    set needs = t.needs - c.n, met = t.met + c.ran, version = t.version + 1,
      fire_at = case when t.met > 0 then greatest(t.fire_at, c.fire) else c.fire end, -- of roots, the latest
      status = case when t.needs <= c.n and t.wait_for is null and t.kind <> 'batch' then 'scheduled'
        else 'waiting' end,
      due_at = case
        when t.needs > c.n or t.paused or t.wait_for is not null or t.kind = 'batch' then null
        else greatest(clock_timestamp(), t.run_at)
          + case when t.jitter = '0' then '0' else pgrab_internal.jitter_of(t.id, t.jitter) end end
    from unnest((select b.child), (select b.n), (select b.bad), (select b.ran), (select b.fire))
      c(child, n, bad, ran, fire)
    where t.id = any (array[c.child]) and t.status = 'waiting' and t.incarnation is null
      and t.needs > 0 -- 0: its handler waits for a signal
      and not c.bad and (t.needs > c.n or t.met + c.ran > 0)
    returning t.id, t.chain, pgrab.shard(t.id) as shard, t.due_at,
      (t.wait_for is not null or t.kind = 'batch') and t.needs = 0 as asks)
  select coalesce(array_agg(k.id), '{}'), coalesce(array_agg(k.chain), '{}'), '{}', '{}', '{}',
    array_agg(distinct k.shard) filter (where k.due_at is not null), array_agg(k.id) filter (where k.asks)
  into v_counted.counted, v_counted.going, v_counted.skipped, v_counted.chains, v_counted.fires, v_shards,
    v_asks
  from counted k;
  if v_shards is not null then
    perform pgrab_internal.ring(v_shards);
  end if;
  if v_asks is not null then
    perform pgrab_internal.links_ask(v_asks);
  end if;
  if c_unmet then
    v_counted := pgrab_internal.links_unmet(b, v_counted);
  end if;
  return v_counted;
end $$;
comment on function pgrab_internal.links_count is
  'Counts links down: those that can start are released, those that never can are skipped.';

-- Skipped links keep their rows if their chain recurs, or a retry may bring them back.
create or replace function pgrab_internal.links_unmet(
  b pgrab_internal.links_below, inout c pgrab_internal.links_counted)
language plpgsql as $$
declare
  v_moves pgrab_internal.move[];
  v_moved pgrab_internal.moved[];
begin
  select array_agg(pgrab_internal.move_to(t.id, t.version, 'unmet', p_fire_at => f.fire,
    p_met => t.met + x.ran,
    p_run => pgrab_internal.note('skipped', 'a parent did not end as run_if asks', f.fire)))
  into v_moves
  from unnest((select b.child), (select b.n), (select b.bad), (select b.ran), (select b.fire))
      x(child, n, bad, ran, fire)
    join pgrab.task t on t.id = any (array[x.child])
      and case when t.status = 'waiting' and t.incarnation is null and t.needs > 0
          and t.id <> all (c.counted)
        then x.bad or t.needs <= x.n and t.met + x.ran = 0 end
    cross join lateral (
      select case when t.met > 0 then greatest(t.fire_at, x.fire) else x.fire end as fire) f;
  v_moved := pgrab_internal.move(v_moves);
  select coalesce(array_agg(m.id), '{}'), coalesce(array_agg(m.chain), '{}'),
    coalesce(array_agg(f.fire_at), '{}')
  into c.skipped, c.chains, c.fires
  from unnest(v_moved) m join unnest(v_moves) f on f.id = m.id;
end $$;
comment on function pgrab_internal.links_unmet is
  'Skips the links that were not counted down, because a parent did not end as they ask.';

-- The children of the links count down; then what hangs below those that are skipped, see 28_chain_skip.sql.
-- p_chains: the links' chains.  p_fires: the planned times of their runs.  p_counted: some of these chains
-- have a schedule.  The caller has recorded the ends, and holds the locks of links that still exist.
create or replace function pgrab_internal.chain_advance(
  p_ids bigint[], p_chains bigint[], p_ends text[], p_fires timestamptz[], p_counted boolean) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_below pgrab_internal.links_below;
  v_counted pgrab_internal.links_counted;
  v_skipped bigint[] := '{}';
  v_over bigint[] := p_chains; -- those of which these links may have been the last
  v_changes boolean := pg_relation_size('pgrab.edge_change') > 0;
  v_edges boolean := pg_relation_size('pgrab.edge') > 0;
begin
  if v_changes then
    v_changes := exists (select from pgrab.edge_change g where g.parent_id = any (p_ids));
  end if;
  if v_edges then
    v_edges := exists (select from pgrab.edge d where d.parent_id = any (p_ids));
  end if;
  if v_changes or v_edges then
    v_below := pgrab_internal.links_below(p_ids, p_ends, p_fires, v_changes);
  else
    v_below := pgrab_internal.links_below_only(p_ids, p_ends, p_fires);
  end if;
  if 'parked' = any (p_ends) then
    update pgrab.chain c set stuck = true
    where c.chain = any (array(
        select distinct f.chain from unnest(p_chains, p_ends) f(chain, ended)
        where f.ended = 'parked' order by 1))
      and c.root is null and not c.stuck;
  end if;
  if cardinality(array_positions(v_below.bad, true)) > pgrab_internal.skip_slice() then
    v_skipped := pgrab_internal.skip_below(array(select row(u.*)::pgrab_internal.skip
      from unnest(p_ids, p_chains, p_ends, p_fires) u(id, chain, ended, fire)));
  elsif v_below.child is not null then
    v_counted := pgrab_internal.links_count(v_below);
    if v_counted.skipped <> '{}' then
      v_skipped := v_counted.skipped || pgrab_internal.skip_below(pgrab_internal.skips_of(v_counted));
    elsif v_counted.going <> '{}' or cardinality(p_chains) > 1 then
      v_over := array(select unnest(p_chains) except select unnest(v_counted.going));
    end if;
  end if;
  if p_counted then
    perform pgrab_internal.chain_count(p_ids || v_skipped);
  end if;
  if v_over <> '{}' then
    perform pgrab_internal.chains_end(v_over);
  end if;
end $$;
comment on function pgrab_internal.chain_advance is
  'What the end of links sets in motion: children released or skipped, and with the last link the end of '
  'the chain''s run. In the transaction that finishes them.';

-- The run of a chain with a schedule ends under the lock on its row.
create or replace function pgrab_internal.chain_count(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_chains bigint[];
  v_n bigint[];
begin
  select array_agg(n.chain order by n.chain), array_agg(n.n order by n.chain) into v_chains, v_n
  from (
    select t.chain, count(*) as n
    from unnest((select p_ids)) a(id) join pgrab.task t on t.id = any (array[a.id]) group by t.chain) n
    cross join lateral (select c.root from pgrab.chain c where c.chain = n.chain offset 0) c
  where c.root is not null;
  perform from unnest((select v_chains)) n(chain)
    cross join lateral (select from pgrab.chain c where c.chain = n.chain for update) l;
  update pgrab.chain c set pending = c.pending - n.n
  from unnest((select v_chains), (select v_n)) n(chain, n) where c.chain = any (array[n.chain]);
  perform pgrab_internal.chain_end(n.chain) from unnest((select v_chains)) n(chain)
    cross join lateral (select c.pending from pgrab.chain c where c.chain = n.chain offset 0) c
  where c.pending = 0;
  -- A chain that lost its schedule while this transaction was about to end one of its links: so the link's
  -- row still exists.
  v_chains := array(
    select distinct c.chain
    from unnest((select p_ids)) a(id) join pgrab.task t on t.id = any (array[a.id])
      cross join lateral (select c.chain, c.root from pgrab.chain c where c.chain = t.chain offset 0) c
    where t.status in ('done', 'cancelled') and c.root is null order by 1);
  perform pgrab_internal.chain_once(n.chain) from unnest((select v_chains)) n(chain);
end $$;
comment on function pgrab_internal.chain_count is
  'Counts ended links of recurring chains, and ends the run of those in which none is left.';
