-- Chains at work, third part: what can never start any more is skipped, in slices.
--
-- Below a link that failed hangs anything from nothing to a hundred thousand links.  The end of a run has a
-- deadline, and other people's runs end in the same statement; so it skips SLICE links, and leaves what hangs
-- below those to pgrab.skipping, which a node works off (chain_tick) until nothing is left.  Until then links
-- wait: so no run of a chain is over too early.  Changes to the graph are refused meanwhile (chain_lock).

create or replace function pgrab_internal.skip_slice() returns integer
language sql immutable
return 1000;
comment on function pgrab_internal.skip_slice is 'How many links are skipped at once.';

-- fire: the planned time of its run.
create type pgrab_internal.skip as (id bigint, chain bigint, ended text, fire timestamptz);
comment on type pgrab_internal.skip is
  'A link that has ended, and below which something may have to be skipped.';

create or replace function pgrab_internal.children_in_run(p_id bigint)
returns table (child_id bigint, run_if text)
language sql stable
begin atomic
  select x.child_id, x.run_if from pgrab_internal.children_of(p_id) x
  where not exists (
    select from pgrab.edge_change g where g.parent_id = p_id and g.child_id = x.child_id and g.added)
  union all
  select g.child_id, g.run_if from pgrab.edge_change g where g.parent_id = p_id and not g.added;
end;
comment on function pgrab_internal.children_in_run is
  'The children that count in the current run of the chain.';

-- Waiting children for which this end is the wrong one, and what waits for a success or failure of those.
create or replace function pgrab_internal.links_doomed(s pgrab_internal.skip[], p_limit integer)
returns pgrab_internal.links_below
language plpgsql stable as $$
declare
  v_below pgrab_internal.links_below;
begin
  with recursive doomed(id, ended, fire) as (
    select w.id, w.ended, w.fire from unnest((select s)) w
    union
    select x.id, 'skipped', d.fire
    from doomed d cross join lateral (
      select t.id
      from pgrab_internal.children_in_run(d.id) c join pgrab.task t on t.id = any (array[c.child_id])
      where t.status = 'waiting' and t.incarnation is null and t.needs > 0
        and not pgrab_internal.run_if_met(c.run_if, d.ended) offset 0) x),
  found as (
    select d.id, max(d.fire) as fire
    from (select x.* from doomed x offset cardinality(s) limit p_limit) d group by d.id order by d.id)
  select array_agg(f.id), array_agg(0), array_agg(true), array_agg(0), array_agg(f.fire)
  into v_below from found f;
  return v_below;
end $$;
comment on function pgrab_internal.links_doomed is
  'Of what waits below links that have ended, what can never start, the nearest first.';

create or replace function pgrab_internal.skips_of(c pgrab_internal.links_counted)
returns pgrab_internal.skip[]
language sql immutable
return array(select row(u.id, u.chain, 'skipped', u.fire)::pgrab_internal.skip
  from unnest(c.skipped, c.chains, c.fires) u(id, chain, fire));
comment on function pgrab_internal.skips_of is 'Links that have just been skipped.';

-- s: links that have ended.  Below them one slice is skipped; then those whose children are all told of it
-- count for the rest of their children (`always`), of which more may be skipped.  Returns what remains, and
-- the links that were skipped.
create or replace function pgrab_internal.skip_on(
  inout s pgrab_internal.skip[], out skipped bigint[], out going bigint[])
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_below pgrab_internal.links_below;
  v_counted pgrab_internal.links_counted;
  v_told pgrab_internal.skip[];
begin
  skipped := '{}';
  going := '{}';
  v_below := pgrab_internal.links_doomed(s, pgrab_internal.skip_slice());
  if v_below.child is not null then
    v_counted := pgrab_internal.links_count(v_below);
    skipped := v_counted.skipped;
    s := s || pgrab_internal.skips_of(v_counted);
  end if;
  select coalesce(array_agg(x.i) filter (where x.done), '{}'),
    coalesce(array_agg(x.i) filter (where not x.done), '{}')
  into v_told, s
  from (
    select i, not exists (
      select from pgrab_internal.children_in_run(i.id) c join pgrab.task t on t.id = any (array[c.child_id])
      where t.status = 'waiting' and t.incarnation is null and t.needs > 0
        and not pgrab_internal.run_if_met(c.run_if, i.ended)) as done
    from unnest((select s)) i) x;
  v_below := (
    select pgrab_internal.links_below(array_agg(i.id), array_agg(i.ended), array_agg(i.fire), true)
    from unnest(v_told) i);
  if v_below.child is not null then
    v_counted := pgrab_internal.links_count(v_below);
    skipped := skipped || v_counted.skipped;
    going := v_counted.going;
    s := s || pgrab_internal.skips_of(v_counted);
  end if;
end $$;
comment on function pgrab_internal.skip_on is
  'Skips the next slice of what can never start below links that have ended.';

create or replace function pgrab_internal.skips_keep(s pgrab_internal.skip[]) returns void
language sql as $$
  insert into pgrab.skipping (task_id, chain, status, fire_at) select * from unnest(s)
$$;
comment on function pgrab_internal.skips_keep is 'Leaves the rest to chain_tick().';

create or replace function pgrab_internal.skip_below(s pgrab_internal.skip[]) returns bigint[]
language plpgsql as $$
declare
  r record;
  v_skipped bigint[] := '{}';
begin
  while cardinality(s) > 0 and cardinality(v_skipped) < pgrab_internal.skip_slice() loop
    r := pgrab_internal.skip_on(s);
    s := r.s;
    v_skipped := v_skipped || r.skipped;
  end loop;
  if cardinality(s) > 0 then
    perform pgrab_internal.skips_keep(s);
    perform pg_notify('pgrab', 'waits');
  end if;
  return v_skipped;
end $$;
comment on function pgrab_internal.skip_below is
  'Skips what can never start below links that have ended, up to a slice; the rest is kept for '
  'chain_tick(). Returns what was skipped.';

create or replace function pgrab_internal.skips_take(p_chain bigint) returns pgrab_internal.skip[]
language sql as $$
  with taken as (
    delete from pgrab.skipping s using (
      select x.task_id from pgrab.skipping x where x.chain = p_chain
      limit pgrab_internal.skip_slice() for update skip locked) x
    where s.task_id = any (array[x.task_id]) returning s.task_id, s.chain, s.status, s.fire_at)
  select array_agg(row(t.*)::pgrab_internal.skip) from taken t
$$;
comment on function pgrab_internal.skips_take is 'Takes what is left to be skipped below in a chain.';

-- A link that a user has locked undoes all of it, what was taken too: the next round does it.
create or replace function pgrab_internal.chain_tick_one(p_chain bigint) returns boolean
language plpgsql as $$
declare
  s pgrab_internal.skip[];
  r record;
begin
  s := pgrab_internal.skips_take(p_chain); -- not where it is declared: that is no part of this block
  if s is null then
    return false;
  end if;
  r := pgrab_internal.skip_on(s);
  perform pgrab_internal.skips_keep(r.s);
  perform pgrab_internal.chain_count(r.skipped);
  perform pgrab_internal.chains_end(array[p_chain]);
  return true;
exception when others then
  if sqlstate not in ('55P03', '40P01') and not pgrab_internal.row_fault(sqlstate, sqlerrm) then
    raise;
  end if;
  raise log 'links below task % cannot be skipped now: %', s[1].id, sqlerrm;
  return false;
end $$;
comment on function pgrab_internal.chain_tick_one is
  'Skips one slice of a chain. False: there is none, or it must wait.';

-- Serves: waits.sql.  The chains in any order, because there may not be time for all.
create or replace function pgrab_internal.chain_tick(out looked bigint, out next_us bigint)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '300 ms';
  v_chain bigint;
begin
  looked := 0;
  if not exists (select from pgrab.skipping) then
    return;
  end if;
  next_us := 500000;
  if pgrab_internal.duty_take('chains', '0.4 s') then
    for v_chain in select s.chain from pgrab.skipping s group by s.chain order by random() loop
      while clock_timestamp() < c_until and pgrab_internal.chain_tick_one(v_chain) loop
        looked := looked + 1;
      end loop;
    end loop;
  end if;
end $$;
comment on function pgrab_internal.chain_tick is
  'Goes on with what the ends of runs have left to be skipped. Returns how many slices, and in how many '
  'microseconds it is time to look again. Null: nothing is left.';
