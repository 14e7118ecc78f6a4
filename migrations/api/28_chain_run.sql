-- Chains at work, second part: a run of a chain begins, ends, and is planned again.  See 28_chain_link.sql.

-- Links that are below none that takes part in the run: they have yet to begin.
create or replace function pgrab_internal.links_fresh(p_chain bigint) returns bigint[]
language plpgsql as $$
declare
  v_new constant bigint[] := array(
    select t.id from pgrab.task t
    where t.chain = p_chain and not pgrab_internal.takes_part(t.status, t.needs));
begin
  if v_new = '{}' then
    return v_new;
  end if;
  return array(
    with recursive bound(id) as (
      select x.child_id from pgrab.task t cross join lateral pgrab_internal.children_of(t.id) x
      where t.chain = p_chain and t.id <> all (v_new)
      union
      select x.child_id from bound b cross join lateral pgrab_internal.children_of(b.id) x)
    select n.id from unnest(v_new) n(id) where n.id not in (select b.id from bound b));
end $$;
comment on function pgrab_internal.links_fresh is
  'Links that were added while their chain ran, and are no longer connected with it.';

create or replace function pgrab_internal.links_begin(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  delete from pgrab.edge_change g where g.child_id = any (p_ids);
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version, 'wait', p_met => 0,
    p_needs => (
      -- edge_add() is about to count an edge to another chain
      select count(*)::integer from pgrab_internal.parents_of(t.id) a join pgrab.task p on p.id = a.parent_id
      where p.chain = t.chain))))
  from pgrab.task t where t.id = any (p_ids) and not pgrab_internal.takes_part(t.status, t.needs);
  perform pgrab_internal.links_free(array_agg(t.id), array_agg(greatest(t.fire_at, t.run_at)))
  from pgrab.task t where t.id = any (p_ids) and t.status = 'waiting' and t.needs = 0
    and not pgrab_internal.has_begun(t.attempt, t.steps);
end $$;
comment on function pgrab_internal.links_begin is
  'Lets links that were added while their chain ran start, once and apart from it.';

-- What has ended in this run has ended for good and leaves.  What a parked link has kept from starting stays
-- as long as the parked link.
create or replace function pgrab_internal.chain_once(p_chain bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  v_fresh bigint[];
begin
  -- The next statement sees links that have been parked meanwhile.
  perform from pgrab.chain c where c.chain = p_chain for update;
  update pgrab.chain c
  set root = null, pending = null,
    stuck = exists (select from pgrab.task t where t.chain = p_chain and t.status = 'parked')
  where c.chain = p_chain returning * into h;
  perform from pgrab.task t
  where t.chain = p_chain and (t.status = 'waiting' or pgrab_internal.is_over(t.status))
  order by t.id for update;
  perform pgrab_internal.links_ended(p_chain, pgrab_internal.chain_after(p_chain));
  v_fresh := pgrab_internal.links_fresh(p_chain);
  perform pgrab_internal.move(array_agg(case
    when t.status <> 'waiting' then pgrab_internal.move_to(t.id, t.version, 'leave')
    when t.needs is null then pgrab_internal.move_to(t.id, t.version, 'drop', p_run =>
      pgrab_internal.note('skipped', 'its chain has ended before it took part in a run'))
    -- otherwise it would start for the fire of the last run when it loses its parents
    else pgrab_internal.move_to(t.id, t.version, 'wait', p_fire_at => clock_timestamp()) end order by t.id))
  from pgrab.task t
  where t.chain = p_chain and t.id <> all (v_fresh)
    and (t.status = 'waiting' and (t.needs is null or t.needs > 0 and t.met = 0)
      or t.status in ('done', 'cancelled') or t.status = 'skipped' and not h.stuck);
  if v_fresh <> '{}' then
    perform pgrab_internal.links_begin(v_fresh);
  end if;
  perform pgrab_internal.chains_end(array[p_chain]);
end $$;
comment on function pgrab_internal.chain_once is
  'From here on a chain runs once: it has lost its schedule, had its last fire, or lost its root.';

-- The part keeps the number of the run that it took part in, and the chain gets another.
create or replace function pgrab_internal.chain_part_leaves(h pgrab_internal.chain) returns void
language plpgsql as $$
declare
  v_lost bigint[];
  v_below bigint[];
  v_new bigint;
begin
  if not exists (select from pgrab.edge_change g where g.chain = h.chain) then
    return;
  end if;
  v_below := pgrab_internal.chain_below(h.root, h.chain_id);
  v_lost := array(select t.id from pgrab.task t where t.chain = h.chain and t.id <> all (v_below));
  if v_lost <> '{}' then
    insert into pgrab.chain (root, chain_id, since) values (null, h.chain_id, h.since)
    returning chain into v_new;
    perform pgrab_internal.chain_put(v_lost, v_new);
    perform pgrab_internal.chain_once(v_new);
  end if;
end $$;
comment on function pgrab_internal.chain_part_leaves is
  'At the end of a run: what is no longer below the root has had its last run and leaves the chain.';

create or replace function pgrab_internal.chain_next(r pgrab_internal.task) returns timestamptz
language plpgsql as $$
begin
  if r.schedule is null or r.fires >= r.max_runs then
    return null;
  end if;
  r.chain := null; -- as for a task on its own
  r.status := 'scheduled';
  return pgrab_internal.fire_following(r, r.fires);
end $$;
comment on function pgrab_internal.chain_next is
  'When the root of a chain fires next, once its run is over. Null: never.';

create or replace function pgrab_internal.chain_rearm(h pgrab_internal.chain, p_next timestamptz) returns void
language plpgsql as $$
begin
  perform pgrab_internal.move(array_agg(case when t.id = h.root
    then pgrab_internal.move_to(t.id, t.version, 'next', p_fire_at => p_next, p_run_at => p_next,
      p_attempt => 0, p_needs => 0, p_met => 0)
    else pgrab_internal.move_to(t.id, t.version, 'again', p_attempt => 0, p_met => 0, p_needs => (
      select count(*)::integer from pgrab_internal.parents_of(t.id))) end))
  from pgrab.task t where t.chain = h.chain;
  update pgrab.chain c
  set chain_id = nextval('pgrab.chain_run_seq'), since = clock_timestamp(), pending = (
    select count(*) from pgrab.task t where t.chain = h.chain and t.needs is not null)
  where c.chain = h.chain;
  delete from pgrab.edge_change g where g.chain = h.chain;
  delete from pgrab.skipping s where s.chain = h.chain;
end $$;
comment on function pgrab_internal.chain_rearm is
  'Makes all links of a recurring chain wait for its next fire.';

create or replace function pgrab_internal.chain_end(p_chain bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  r pgrab_internal.task;
  v_next timestamptz;
begin
  select * into h from pgrab.chain c where c.chain = p_chain for update;
  if h.root is null then
    perform pgrab_internal.chains_end(array[p_chain]);
    return;
  elsif h.pending > 0 then
    return;
  end if;
  -- an edit or a pause that is under way comes before this, or after
  perform from pgrab.task t where t.chain = p_chain order by t.id for update;
  select * into r from pgrab.task t where t.id = h.root;
  v_next := pgrab_internal.chain_next(r);
  if v_next is null then
    perform pgrab_internal.chain_once(p_chain);
    perform pgrab_tool.edit(r.id, '{"schedule": null}'); -- still there if it is parked
    return;
  end if;
  if r.calendar is not null then
    perform pgrab_internal.note_closed(array[r.id], array[r.fire_at], array[v_next]);
  end if;
  perform pgrab_internal.chain_part_leaves(h);
  perform pgrab_internal.chain_rearm(h, v_next);
end $$;
comment on function pgrab_internal.chain_end is
  'Ends a chain''s run when nothing is pending: a recurring chain is armed again; after its last fire it is '
  'a chain that runs once.';
