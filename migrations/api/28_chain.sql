-- Chains: the graph and its rules, what the end of a link sets free, the end of a chain run.
--
-- The edges are pgrab.task.parent_id and pgrab.edge. Tasks that hang together are one chain (pgrab.chain); it has either one root with a schedule, or any number of roots without.
-- Within one run of the chain a link counts its parents down (needs), under its row lock, so that two parents that end at the same moment on two nodes release it once:
--   success, failure   are satisfied by just that end of the parent; another end, and they never can be: the link is skipped
--   always             is satisfied by any end; but a link all of whose parents were skipped is skipped itself
--
-- A chain that runs once: a link leaves with its end like any other task, and the history (pgrab.run.ended, definition) is its memory. Nothing is counted, and no lock is shared by links that have nothing
-- to do with each other. A link that failed for good is parked, for pgrab.retry() to go on from there; what is skipped from then on (pgrab.chain.stuck) is kept for that.
-- A chain with a schedule: ended links stay, and are counted (pending). With the last one the run is over: the root is armed anew and all links wait again; after its last fire it is a chain that runs once.
--
-- The functions that people's own sessions come through set enable_seqscan off: a plan that was made while the table was small stays with the session, and would read a
-- table that has grown since from end to end, once per link. And jit off, because a table without statistics makes such plans look dear.
--
-- Lock order: rows of tasks in id order, parents before children (a waiting child is locked by nobody else but a person), then pgrab.chain in id order.

-- any (array[...]) and CASE: by its key. As `parent_id is not null` it could be read by task_parent_idx, which for a table taken for a small one is every link of it, once per link.
create or replace function pgrab_internal.parents_of(p_id bigint) returns table (parent_id bigint, run_if text)
language sql stable as $$
  select t.parent_id, t.run_if from pgrab.task t where t.id = any (array[p_id]) and case when t.parent_id is not null then true end
  union all
  select e.parent_id, e.run_if from pgrab.edge e where e.child_id = p_id
$$;
comment on function pgrab_internal.parents_of(bigint) is 'The parents of a task and which end of each it waits for.';

create or replace function pgrab_internal.children_of(p_id bigint) returns table (child_id bigint, run_if text)
language sql stable as $$
  select t.id, t.run_if from pgrab.task t where t.parent_id = p_id
  union all
  select e.child_id, e.run_if from pgrab.edge e where e.parent_id = p_id
$$;
comment on function pgrab_internal.children_of(bigint) is 'The children of a task and which end of it starts each.';

create or replace function pgrab_internal.parents_in_run(p_id bigint) returns table (parent_id bigint, run_if text)
language sql stable as $$
  select a.parent_id, a.run_if from pgrab_internal.parents_of(p_id) a
  where not exists (select from pgrab.edge_change g where g.parent_id = a.parent_id and g.child_id = p_id and g.added)
  union all
  select g.parent_id, g.run_if from pgrab.edge_change g where g.child_id = p_id and not g.added
$$;
comment on function pgrab_internal.parents_in_run(bigint) is 'Internal: the parents that count in the run the chain is in.';

create or replace function pgrab_internal.chain_refuse(p_parent bigint, p_child bigint, p_why text, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023', message = format('task %s cannot be a parent of task %s: %s', p_parent, p_child, p_why), hint = p_hint, schema = 'pgrab', table = 'task', column = 'parent_id';
end $$;
comment on function pgrab_internal.chain_refuse(bigint, bigint, text, text) is 'Internal: refuses an edge.';

-- The result that the edges below a task see, once it has ended; null before.
create or replace function pgrab_internal.link_result(t pgrab.task) returns text
language sql immutable as $$
  select case t.status when 'done' then 'succeeded' when 'parked' then 'failed' when 'cancelled' then 'cancelled' when 'skipped' then 'skipped' end
$$;
comment on function pgrab_internal.link_result(pgrab.task) is 'Internal: how a link has ended in this run of its chain: succeeded, failed, cancelled, skipped; null: it has not.';

-- The same of a parent, which may have left. One that even the history has forgotten has succeeded, as far as anybody can still ask.
create or replace function pgrab_internal.parent_result(p_id bigint) returns text
language sql stable as $$
  select case when t.id is not null then pgrab_internal.link_result(t) else coalesce(h.result, 'succeeded') end
  from (select p_id as id) p
    left join pgrab.task t on t.id = p.id
    left join lateral (
      select (array_agg(case r.ended when 'done' then 'succeeded' else r.ended end order by r.finished_at desc))[1] as result from pgrab.run r where r.task_id = p.id and r.ended is not null and t.id is null) h on true
$$;
comment on function pgrab_internal.parent_result(bigint) is 'Internal: how a parent has ended, wherever it is by now; null: it has not.';

create or replace function pgrab_internal.run_if_met(p_run_if text, p_result text) returns boolean
language sql immutable as $$
  select case p_run_if when 'success' then p_result = 'succeeded' when 'failure' then p_result = 'failed' else true end
$$;
comment on function pgrab_internal.run_if_met(text, text) is 'Internal: may a child start, so far as this parent goes?';

create or replace function pgrab_internal.chain_begun(h pgrab.chain) returns boolean
language sql stable as $$
  select exists (select from pgrab.run r where r.chain_id = h.run and r.ended is not null)
$$;
comment on function pgrab_internal.chain_begun(pgrab.chain) is 'Internal: has a link of a chain that runs once left it?';

-- Is a recurring chain between the start of its root and its last link's end? Then the graph stands still.
create or replace function pgrab_internal.chain_under_way(p_chain bigint) returns boolean
language sql stable as $$
  select exists (select from pgrab.chain c join pgrab.task t on t.id = c.root where c.id = p_chain and (t.status not in ('scheduled', 'claimed') or t.attempt > 0))
$$;
comment on function pgrab_internal.chain_under_way(bigint) is 'Internal: true while a recurring chain runs. A change of its graph then counts from the next firing on.';

-- What may be below what. Locks the parent; the rest of the checks of an edge are the caller's.
create or replace function pgrab_internal.chain_parent(p_parent bigint, p_child bigint, p_owner text) returns pgrab.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p pgrab.task;
  v_ended text;
begin
  if p_parent = p_child then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it is the task itself', 'A task waits for others. To run it again and again give it a schedule.');
  end if;
  select * into p from pgrab.task t where t.id = p_parent for update;
  if not found then
    select r.ended into v_ended from pgrab.run r where r.task_id = p_parent and r.ended is not null limit 1;
    perform pgrab_internal.chain_refuse(p_parent, p_child, coalesce('it has ended: ' || v_ended, 'there is no such task'),
      'Insert parents and children in one transaction: then the parent cannot end before its children are there.');
  elsif p.owner <> p_owner then
    perform pgrab_internal.chain_refuse(p_parent, p_child, format('it belongs to %s, not to %s', p.owner, p_owner), 'A chain has one owner.');
  elsif p.status in ('done', 'cancelled', 'skipped') and not exists (select from pgrab.chain c where c.id = p.chain and c.root is not null) then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it has ended: ' || p.status, 'Give the new task another parent, or none.');
  end if;
  return p;
end $$;
comment on function pgrab_internal.chain_parent(bigint, bigint, text) is 'Internal: the parent of a new edge, locked; refuses one that cannot be.';

create or replace function pgrab_internal.chain_new(p pgrab.task) returns bigint
language plpgsql as $$
declare
  v_chain bigint;
  v_parked constant boolean := p.status = 'parked';
begin
  insert into pgrab.chain (root, pending, stuck)
  values (case when p.schedule is not null then p.id end, case when p.schedule is not null then case when v_parked then 0 else 1 end end, p.schedule is null and v_parked)
  returning id into v_chain;
  update pgrab.task t set chain = v_chain, needs = case when v_parked then null else 0 end, met = 0 where t.id = p.id;
  return v_chain;
end $$;
comment on function pgrab_internal.chain_new(pgrab.task) is 'Internal: a task on its own becomes the root of a chain.';

-- For a row that is being inserted with a parent_id. Where links are counted task_inserted() does it, once per statement.
create or replace function pgrab_internal.chain_join(t pgrab.task) returns pgrab.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p pgrab.task := pgrab_internal.chain_parent(t.parent_id, t.id, t.owner);
begin
  t.chain := coalesce(p.chain, pgrab_internal.chain_new(p));
  t.status := 'waiting';
  t.due_at := null;
  t.fire_at := p.fire_at;
  t.met := 0;
  if pgrab_internal.chain_under_way(t.chain) then
    insert into pgrab.edge_change values (t.chain, p.id, t.id, t.run_if, true);
  elsif p.status = 'parked' then
    perform pgrab_internal.chain_refuse(p.id, t.id, 'it is parked', format('select pgrab.retry(%s) first, or give the new task another parent.', p.id));
  else
    t.needs := 1;
  end if;
  return t;
end $$;
comment on function pgrab_internal.chain_join(pgrab.task) is 'Internal: makes a new task a link of its parent''s chain.';

-- A link is given a schedule, or loses it.
create or replace function pgrab_internal.chain_schedule(t pgrab.task) returns void
language plpgsql as $$
begin
  if t.schedule is null then
    perform pgrab_internal.chain_once(t.chain);
    return;
  end if;
  if exists (select from pgrab_internal.parents_of(t.id)) then
    perform pgrab_internal.refuse('schedule', t.schedule, 'A task with a parent starts when that has ended; the schedule belongs to the root of its chain.');
  elsif exists (select from pgrab.task x where x.chain = t.chain and x.id <> t.id and not exists (select from pgrab_internal.parents_of(x.id))) then
    perform pgrab_internal.refuse('schedule', t.schedule, 'Its chain has other roots; everything in a recurring chain hangs below the task that has the schedule.');
  elsif t.status not in ('scheduled', 'claimed', 'parked') or t.status <> 'parked' and t.attempt > 0 or exists (select from pgrab.chain c where c.id = t.chain and pgrab_internal.chain_begun(c))
    or exists (select from pgrab.task x where x.chain = t.chain and x.id <> t.id and x.status <> 'waiting') then
    perform pgrab_internal.refuse('schedule', t.schedule, 'Its chain has begun and runs once. Insert a chain anew, with the schedule on its root.');
  end if;
  update pgrab.chain c set root = t.id, stuck = false, pending = (select count(*) from pgrab.task x where x.chain = t.chain and x.needs is not null) where c.id = t.chain;
end $$;
comment on function pgrab_internal.chain_schedule(pgrab.task) is 'Internal: the root of a chain gets a schedule, or loses it.';

create or replace function pgrab_internal.task_reschedule() returns trigger
language plpgsql as $$
begin
  perform pgrab_internal.chain_schedule(new);
  return null;
end $$;
comment on function pgrab_internal.task_reschedule() is 'Internal: a link with a schedule from now on, or without.';
create trigger task_40_reschedule after update of schedule on pgrab.task for each row
  when (new.chain is not null and (old.schedule is null) <> (new.schedule is null)) execute function pgrab_internal.task_reschedule();

-- From here on the chain runs once: what has ended in this run has ended for good and leaves. What a parked link has kept from starting stays as long as that.
create or replace function pgrab_internal.chain_once(p_chain bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab.chain;
begin
  perform from pgrab.chain c where c.id = p_chain for update; -- the next statement sees what the last one who had it has parked
  update pgrab.chain c set root = null, pending = null, stuck = exists (select from pgrab.task t where t.chain = p_chain and t.status = 'parked') where c.id = p_chain returning * into h;
  update pgrab.run x set ended = t.status, definition = pgrab.definition(t)
  from pgrab.task t
  where t.chain = p_chain and t.status in ('done', 'cancelled', 'skipped') and x.task_id = t.id and x.chain_id = h.run
    and x.finished_at = (select max(y.finished_at) from pgrab.run y where y.task_id = t.id and y.chain_id = h.run);
  perform pgrab_internal.note_fire(t, t.fire_at, 'skipped', 'its chain has ended before it took part in a run', 'skipped') from pgrab.task t where t.chain = p_chain and t.status = 'waiting' and t.needs is null;
  perform pgrab_internal.links_leave(array(select t.id from pgrab.task t
    where t.chain = p_chain and (t.status in ('done', 'cancelled') or t.status = 'skipped' and not h.stuck or t.status = 'waiting' and t.needs is null)));
  perform pgrab_internal.chains_end(array[p_chain]);
end $$;
comment on function pgrab_internal.chain_once(bigint) is 'Internal: a chain has lost its schedule, or had its last fire.';

-- Says, from here to the end of the transaction or to the next call, whether rows that go are links that have ended ('on'), or a person's delete (''). Returns what was said before.
-- By a call, because only a superuser may make a function with a SET of a setting that is ours.
create or replace function pgrab_internal.link_ends(p_value text) returns text
language plpgsql as $$
declare
  v_before constant text := coalesce(current_setting('pgrab.link_ends', true), '');
begin
  perform set_config('pgrab.link_ends', p_value, true);
  return v_before;
end $$;
comment on function pgrab_internal.link_ends(text) is 'Internal: are the rows that go now links that have ended?';

-- The edges above a link go with it; those below stay as long as a child does, which finds its parents' outputs by them.
create or replace function pgrab_internal.links_leave(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_before constant text := pgrab_internal.link_ends('on');
begin
  delete from pgrab.task t using unnest((select p_ids)) i(id) where t.id = any (array[i.id]);
  perform pgrab_internal.edges_leave(p_ids);
  perform pgrab_internal.link_ends(v_before);
end $$;
comment on function pgrab_internal.links_leave(bigint[]) is 'Internal: the rows of links that are on record as ended.';

create or replace function pgrab_internal.edges_leave(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_before constant text := pgrab_internal.link_ends('on');
begin
  delete from pgrab.edge e using unnest((select p_ids)) i(id) where e.child_id = any (array[i.id]);
  perform pgrab_internal.link_ends(v_before);
end $$;
comment on function pgrab_internal.edges_leave(bigint[]) is 'Internal: the edges above links that have left.';

-- Of chains that run once: those in which nothing is left but what a parked link had kept from starting (or what ended by a finish that began before the chain lost its schedule).
-- Without a lock, so that links do not wait for each other's commits: when the last two end at the same moment neither may see it; pgrab.upkeep() does.
create or replace function pgrab_internal.chains_end(p_chains bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_over bigint[] := array(
    select i.id from unnest((select p_chains)) i(id)
      cross join lateral (select c.root from pgrab.chain c where c.id = i.id offset 0) c
      cross join lateral (select exists (select from pgrab.task t where t.chain = i.id and t.status not in ('done', 'cancelled', 'skipped') offset 0) as goes_on) t
    where c.root is null and not t.goes_on order by 1);
  v_left bigint[];
begin
  if v_over <> '{}' then
    v_left := array(select t.id from unnest((select v_over)) c(id) cross join lateral (select t.id from pgrab.task t where t.chain = c.id offset 0) t order by t.id);
    if v_left <> '{}' then
      perform pgrab_internal.links_leave(v_left);
    end if;
    delete from pgrab.chain c using unnest((select v_over)) o(id) where c.id = any (array[o.id]);
    if exists (select from pgrab.edge_change) then
      delete from pgrab.edge_change g where g.chain = any (v_over);
    end if;
  end if;
end $$;
comment on function pgrab_internal.chains_end(bigint[]) is 'Internal: chains that run once and have come to their end.';

-- Makes two chains one. Both rows are locked, the lower id first, and stay so to the end of the transaction: two transactions that would close a circle together meet here.
create or replace function pgrab_internal.chain_merge(a bigint, b bigint) returns bigint
language plpgsql as $$
declare
  v_into pgrab.chain;
  v_from pgrab.chain;
begin
  perform from pgrab.chain c where c.id in (a, b) order by c.id for update;
  if a <> b then
    select * into v_into from pgrab.chain c where c.id = least(a, b);
    delete from pgrab.chain c where c.id = greatest(a, b) returning * into v_from;
    update pgrab.task t set chain = v_into.id where t.chain = v_from.id;
    update pgrab.edge_change g set chain = v_into.id where g.chain = v_from.id;
    update pgrab.run r set chain_id = v_into.run where r.chain_id = v_from.run;
    v_into.root := coalesce(v_into.root, v_from.root);
    update pgrab.chain c
    set root = v_into.root, stuck = v_into.root is null and (c.stuck or v_from.stuck),
      pending = case when v_into.root is not null then (select count(*) from pgrab.task t where t.chain = v_into.id and t.needs is not null) end
    where c.id = v_into.id;
  end if;
  return least(a, b);
end $$;
comment on function pgrab_internal.chain_merge(bigint, bigint) is 'Internal: makes two chains one; returns its number.';

-- A new edge between two tasks that are there.
create or replace function pgrab_internal.edge_add(p_parent bigint, p_child bigint, p_run_if text) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p pgrab.task;
  c pgrab.task;
  v_chain bigint;
begin
  perform from pgrab.task t where t.id in (p_parent, p_child) order by t.id for update;
  select * into c from pgrab.task t where t.id = p_child;
  if not found then
    perform pgrab_internal.chain_refuse(p_parent, p_child, format('there is no task %s', p_child), 'Insert the child first.');
  end if;
  p := pgrab_internal.chain_parent(p_parent, p_child, c.owner);
  if c.schedule is not null then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'the child has a schedule', 'Only the root of a chain has one. update pgrab.task set schedule = null for the child.');
  end if;
  if exists (select from pgrab.chain h join pgrab.chain o on o.id = c.chain where h.id = p.chain and h.root is not null and o.root is null
      and (pgrab_internal.chain_begun(o) or exists (select from pgrab.task x where x.chain = o.id and (x.status not in ('waiting', 'scheduled', 'claimed') or x.attempt > 0)))) then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'its chain has begun, and runs once', 'What becomes part of a recurring chain runs with it from the start.');
  end if;
  -- The chains are locked before the graph is walked, so that what another transaction adds is seen, or waits.
  v_chain := pgrab_internal.chain_merge(coalesce(p.chain, pgrab_internal.chain_new(p)), coalesce(c.chain, pgrab_internal.chain_new(c)));
  if exists (
    with recursive below(id) as (
      select p_child
      union
      select x.child_id from below b cross join lateral pgrab_internal.children_of(b.id) x)
    select from below b where b.id = p_parent) then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it would wait for itself: it hangs below that task already', 'A chain has no circles; take the other edge away first.');
  end if;
  if exists (select from pgrab.chain h where h.id = v_chain and h.root is not null)
    and (select count(*) from pgrab.task t where t.chain = v_chain and t.id <> p_child and not exists (select from pgrab_internal.parents_of(t.id))
      and not exists (select from pgrab.edge_change g where g.child_id = t.id and not g.added)) > 1 then -- (that one leaves the chain with this run)
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'the chain has a schedule and would have two roots', 'Everything in a recurring chain hangs below the task that has the schedule.');
  end if;
  if pgrab_internal.chain_under_way(v_chain) then
    insert into pgrab.edge_change values (v_chain, p_parent, p_child, p_run_if, true);
    return;
  elsif p.status = 'parked' then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it is parked', format('select pgrab.retry(%s) first.', p_parent));
  end if;
  select * into c from pgrab.task t where t.id = p_child;
  if c.status not in ('waiting', 'scheduled', 'claimed') or c.attempt > 0 then
    perform pgrab_internal.chain_refuse(p_parent, p_child, format('the child is %s', case when c.attempt > 0 then 'being tried' else c.status end), 'A task gets its parents before it starts.');
  end if;
  update pgrab.task t
  set status = 'waiting', due_at = null, needs = coalesce(t.needs, 0) + 1, version = t.version + 1, node_id = null, incarnation = null, claimed_at = null
  where t.id = p_child;
end $$;
comment on function pgrab_internal.edge_add(bigint, bigint, text) is 'Internal: checks a new edge and makes the child wait.';

-- An edge is gone. In a chain that runs once the child waits for one less; in a recurring one that is under way, from the next firing on.
create or replace function pgrab_internal.edge_drop(p_parent bigint, p_child bigint, p_run_if text) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p pgrab.task;
  c pgrab.task;
begin
  perform from pgrab.task t where t.id in (p_parent, p_child) order by t.id for update;
  select * into p from pgrab.task t where t.id = p_parent;
  select * into c from pgrab.task t where t.id = p_child;
  if c.id is null or c.chain is null then
    return;
  end if;
  delete from pgrab.edge_change g where g.parent_id = p_parent and g.child_id = p_child and g.added;
  if found then
    null; -- it has never counted (and the chain may have lost its schedule since)
  elsif pgrab_internal.chain_under_way(c.chain) then
    insert into pgrab.edge_change values (c.chain, p_parent, p_child, p_run_if, false);
  elsif c.status = 'waiting' and p.id is not null and pgrab_internal.link_result(p) is null then
    update pgrab.task t set needs = t.needs - 1, version = t.version + 1 where t.id = p_child returning * into c;
    if c.needs = 0 then
      perform pgrab_internal.link_release(array[p_child], array[c.fire_at]);
    end if;
  end if;
  perform pgrab_internal.chain_split(p_child);
end $$;
comment on function pgrab_internal.edge_drop(bigint, bigint, text) is 'Internal: what becomes of a child that has lost a parent.';

-- With a hash join the edges are read once; with any other, once per step of a long line.
create or replace function pgrab_internal.chain_part(p_from bigint, p_a bigint[], p_b bigint[]) returns bigint[]
language sql immutable set enable_hashjoin = on set enable_mergejoin = off set enable_nestloop = off as $$
  with recursive part(id) as (
    select p_from
    union
    select e.b from part p join unnest(p_a, p_b) e(a, b) on e.a = p.id)
  select array_agg(p.id) from part p
$$;
comment on function pgrab_internal.chain_part(bigint, bigint[], bigint[]) is 'Internal: what can be reached from a task along edges from a to b, itself included.';

-- What hangs together with a task, when an edge has gone: if that is not the whole chain any more it becomes a chain of its own.
create or replace function pgrab_internal.chain_split(p_id bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab.chain;
  v_part bigint[];
  v_new bigint;
  v_run bigint;
begin
  select c.* into h from pgrab.chain c where c.id = (select t.chain from pgrab.task t where t.id = p_id) for update;
  if not found or exists (select from pgrab.edge_change g where g.chain = h.id) then
    return; -- the run that is under way still needs it whole
  end if;
  -- In both directions, also over links that have left.
  select pgrab_internal.chain_part(p_id, array_agg(e.a), array_agg(e.b)) into v_part
  from pgrab_internal.chain_links(h.run) l cross join unnest(l.parents) x(id) cross join lateral (values (x.id, l.id), (l.id, x.id)) e(a, b);
  if not exists (select from pgrab.task t where t.chain = h.id and t.id <> all (v_part)) then
    return;
  end if;
  if cardinality(v_part) = 1 and (select t.status in ('scheduled', 'claimed') from pgrab.task t where t.id = p_id) then
    update pgrab.task t set chain = null, needs = null, met = null, fire_at = greatest(t.fire_at, t.run_at) where t.id = p_id;
  else
    insert into pgrab.chain (root, stuck) values (case when h.root = any (v_part) then h.root end, h.stuck) returning id, run into v_new, v_run;
    update pgrab.task t set chain = v_new where t.chain = h.id and t.id = any (v_part);
    update pgrab.run r set chain_id = v_run where h.root is null and r.chain_id = h.run and r.task_id = any (v_part); -- of those that have left
  end if;
  update pgrab.chain c
  set root = case when h.root = any (v_part) then null else c.root end
  where c.id = h.id;
  update pgrab.chain c
  set pending = case when c.root is not null then (select count(*) from pgrab.task t where t.chain = c.id and t.needs is not null) end
  where c.id in (h.id, v_new);
  perform pgrab_internal.chain_end(c.id) from (select h.id union all select v_new where v_new is not null) c;
end $$;
comment on function pgrab_internal.chain_split(bigint) is 'Internal: a part of a chain that hangs on nothing else any more becomes a chain of its own.';

create or replace function pgrab_internal.edge_changed() returns trigger
language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    perform pgrab_internal.edge_drop(old.parent_id, old.child_id, old.run_if);
  end if;
  if tg_op = 'DELETE' then
    perform pgrab_internal.edge_drop(old.parent_id, old.child_id, old.run_if);
  else
    if exists (select from pgrab.task t where t.id = new.child_id and t.parent_id = new.parent_id) then
      perform pgrab_internal.chain_refuse(new.parent_id, new.child_id, 'it is its parent_id already', 'One edge between two tasks is enough.');
    end if;
    perform pgrab_internal.edge_add(new.parent_id, new.child_id, new.run_if);
  end if;
  return null;
end $$;
comment on function pgrab_internal.edge_changed() is 'Internal: keeps chains whole when pgrab.edge changes.';
create trigger edge_10_changed after insert or update on pgrab.edge for each row execute function pgrab_internal.edge_changed();
create trigger edge_20_dropped after delete on pgrab.edge for each row
  when (current_setting('pgrab.link_ends', true) is distinct from 'on') execute function pgrab_internal.edge_changed();

create or replace function pgrab_internal.edge_truncate() returns trigger
language plpgsql as $$
begin
  raise exception using errcode = '0A000', message = 'pgrab.edge cannot be truncated: the tasks below would wait for ever', hint = 'delete from pgrab.edge lets them go.';
end $$;
comment on function pgrab_internal.edge_truncate() is 'Internal: no trigger is told which rows go.';
create trigger edge_30_truncate before truncate on pgrab.edge for each statement execute function pgrab_internal.edge_truncate();

create or replace function pgrab_internal.task_relink() returns trigger
language plpgsql as $$
begin
  if old.parent_id is not null then
    perform pgrab_internal.edge_drop(old.parent_id, old.id, old.run_if);
  end if;
  if new.parent_id is not null then
    if exists (select from pgrab.edge e where e.parent_id = new.parent_id and e.child_id = new.id) then
      perform pgrab_internal.chain_refuse(new.parent_id, new.id, 'there is an edge between them already', 'One edge between two tasks is enough.');
    end if;
    perform pgrab_internal.edge_add(new.parent_id, new.id, new.run_if);
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_relink() is 'Internal: another parent_id or run_if.';
create trigger task_30_relink after update of parent_id, run_if on pgrab.task for each row
  when (old.parent_id is distinct from new.parent_id or old.run_if <> new.run_if and new.parent_id is not null) execute function pgrab_internal.task_relink();

-- Links that a person deletes; those that leave with their end do not come here (pgrab.link_ends). A parent does not leave its children behind; that it and they may go in one statement is why
-- this looks afterwards. (And a BEFORE trigger would make every finish of every task lock its row first.)
-- The run under way goes by the graph it began with: who is waited for there cannot go before its end, whatever the graph says now.
create or replace function pgrab_internal.refuse_awaited(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  g pgrab.edge_change;
begin
  select x.* into g from pgrab.edge_change x join pgrab.task t on t.id = x.child_id
  where x.parent_id = any (p_ids) and not x.added and t.status = 'waiting' and t.needs is not null and t.id <> all (p_ids) order by x.parent_id limit 1;
  if found then
    raise exception using errcode = '23503', message = format('task %s cannot be deleted: task %s waits for it in the run that is under way', g.parent_id, g.child_id),
      hint = format('The graph was changed since that run began; delete it when the run has ended. select pgrab.cancel(%s) ends the run.', (select c.root from pgrab.chain c where c.id = g.chain)), schema = 'pgrab', table = 'task';
  end if;
end $$;
comment on function pgrab_internal.refuse_awaited(bigint[]) is 'Internal: refuses to delete what has not ended and others wait for in this run.';

create or replace function pgrab_internal.task_deleted() returns trigger
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab.chain;
begin
  select * into h from pgrab.chain c where c.id = old.chain;
  if exists (select from pgrab_internal.children_of(old.id) x join pgrab.task t on t.id = x.child_id where t.status = 'waiting' or h.root is not null or old.schedule is not null) then
    raise exception using errcode = '23503', message = format('task %s cannot be deleted: other tasks wait for it', old.id),
      hint = format('select pgrab.delete_chain(%s) deletes it with everything that hangs below it; select pgrab.cancel(%s) stops it.', old.id, old.id), schema = 'pgrab', table = 'task';
  end if;
  delete from pgrab.edge e where e.child_id = old.id or e.parent_id = old.id;
  if h.root is null then
    perform pgrab_internal.chains_end(array[h.id]);
  else
    if old.needs is not null then
      perform pgrab_internal.refuse_awaited(array[old.id]);
    end if;
    update pgrab.chain c
    set pending = case when h.root <> old.id then c.pending - case when old.needs is not null then 1 else 0 end end, root = nullif(c.root, old.id)
    where c.id = h.id;
    perform pgrab_internal.chain_end(h.id);
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_deleted() is 'Internal: refuses to delete a task that others wait for; a link that is gone is missed by its chain.';
create trigger task_20_deleted after delete on pgrab.task for each row
  when (old.chain is not null and current_setting('pgrab.link_ends', true) is distinct from 'on') execute function pgrab_internal.task_deleted();

-- Waiting links whose last parent has ended: due now, or at their own run_at when that is later.
create or replace function pgrab_internal.link_release(p_ids bigint[], p_fires timestamptz[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_shards smallint[];
begin
  with free as (
    update pgrab.task t
    set status = 'scheduled', fire_at = f.fire, due_at = case when not t.paused then greatest(clock_timestamp(), t.run_at) + pgrab_internal.jitter_of(t.id, t.jitter) end, version = t.version + 1
    from unnest((select p_ids), (select p_fires)) f(id, fire)
    where t.id = any (array[f.id]) and t.status = 'waiting'
    returning t.shard)
  select array_agg(distinct f.shard) into v_shards from free f;
  if v_shards is not null then
    perform pgrab_internal.ring(v_shards);
  end if;
end $$;
comment on function pgrab_internal.link_release(bigint[], timestamptz[]) is 'Internal: waiting links become due without the end of a parent.';

-- The children of links that have ended, in id order: by how many of them each, whether it can never start now, how many of them have run, and when they were planned.
-- offset 0, here and in chain_advance(): from each parent to its children, and never the other way round, however many children the statistics expect.
create or replace function pgrab_internal.links_below(p_ids bigint[], p_results text[], p_fires timestamptz[], p_changes boolean) returns table (child bigint, n integer, bad boolean, ran integer, fire timestamptz)
language plpgsql stable set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
  return query
  with w as (
    select * from unnest((select p_ids), (select p_results), (select p_fires)) w(id, result, fire)),
  e as (
    select x.child, x.run_if, w.result, w.fire
    from w cross join lateral (
      select t.id as child, t.run_if from pgrab.task t
      where t.parent_id = w.id and not (p_changes and exists (select from pgrab.edge_change g where g.parent_id = w.id and g.child_id = t.id and g.added)) offset 0) x
    union all
    select x.child_id, x.run_if, w.result, w.fire
    from w cross join lateral (
      select d.child_id, d.run_if from pgrab.edge d
      where d.parent_id = w.id and not (p_changes and exists (select from pgrab.edge_change g where g.parent_id = w.id and g.child_id = d.child_id and g.added)) offset 0) x
    union all
    select g.child_id, g.run_if, w.result, w.fire
    from w cross join lateral (select g.child_id, g.run_if from pgrab.edge_change g where p_changes and g.parent_id = w.id and not g.added offset 0) g)
  select e.child, count(*)::integer, bool_or(not pgrab_internal.run_if_met(e.run_if, e.result)), (count(*) filter (where e.result <> 'skipped'))::integer, max(e.fire)
  from e group by e.child order by e.child;
end $$;
comment on function pgrab_internal.links_below(bigint[], text[], timestamptz[], boolean) is 'Internal: whom the end of links concerns. p_changes: some graph has changed while its chain runs.';

-- Links have ended: their children count down; those that can start are released, those that never can are skipped, and so on from these, a wave at a time.
-- p_chains: theirs. p_fires: the planned times of their runs. p_counted: some of these chains have a schedule. The caller has put their ends on record, and holds their locks if they are still there.
create or replace function pgrab_internal.chain_advance(p_ids bigint[], p_chains bigint[], p_results text[], p_fires timestamptz[], p_counted boolean) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_ids bigint[] := p_ids;
  v_results text[] := p_results;
  v_fires timestamptz[] := p_fires;
  v_all bigint[] := p_ids; -- with those that were skipped
  v_going bigint[]; -- chains of children that wait on or can start
  v_on bigint[] := '{}'; -- of all waves
  v_over bigint[];
  v_shards smallint[];
  v_children bigint[]; -- this and the next four: the columns of links_below()
  v_by integer[];
  v_bad boolean[];
  v_ran integer[];
  v_from timestamptz[];
  v_changes constant boolean := exists (select from pgrab.edge_change);
begin
  while v_ids <> '{}' loop
    if v_changes or exists (select from pgrab.edge d where d.parent_id = any (v_ids)) then
      select array_agg(c.child), array_agg(c.n), array_agg(c.bad), array_agg(c.ran), array_agg(c.fire) into v_children, v_by, v_bad, v_ran, v_from
      from pgrab_internal.links_below(v_ids, v_results, v_fires, v_changes) c;
    else
      -- No edges from them: the same, for a fraction of the cost.
      select array_agg(c.child), array_agg(1), array_agg(c.bad), array_agg(c.ran), array_agg(c.fire) into v_children, v_by, v_bad, v_ran, v_from
      from (
        select x.child, not pgrab_internal.run_if_met(x.run_if, w.result) as bad, case when w.result <> 'skipped' then 1 else 0 end as ran, w.fire
        from unnest((select v_ids), (select v_results), (select v_fires)) w(id, result, fire)
          cross join lateral (select t.id as child, t.run_if from pgrab.task t where t.parent_id = w.id offset 0) x
        order by x.child) c;
    end if;
    v_ids := '{}';
    if v_children is not null then
      -- Who is counted down here may have been counted down by another parent a moment ago: what becomes of it is decided by the row as it is under its lock.
      with counted as (
        update pgrab.task t
        set needs = case when c.bad or t.needs <= c.n and t.met + c.ran = 0 then null else t.needs - c.n end, met = t.met + c.ran, version = t.version + 1,
          fire_at = case when t.met > 0 then greatest(t.fire_at, c.fire) else c.fire end, -- of several roots, the latest
          status = case when c.bad or t.needs <= c.n and t.met + c.ran = 0 then 'skipped' when t.needs <= c.n then 'scheduled' else 'waiting' end,
          due_at = case when c.bad or t.needs > c.n or t.met + c.ran = 0 or t.paused then null else greatest(clock_timestamp(), t.run_at) + case when t.jitter = '0' then '0' else pgrab_internal.jitter_of(t.id, t.jitter) end end
        from unnest((select v_children), (select v_by), (select v_bad), (select v_ran), (select v_from)) c(child, n, bad, ran, fire)
        where t.id = any (array[c.child]) and t.status = 'waiting' and t.needs is not null
        returning t.id, t.status, t.chain, t.shard, t.fire_at, t.due_at)
      select coalesce(array_agg(k.id) filter (where k.status = 'skipped'), '{}'), array_agg(k.fire_at) filter (where k.status = 'skipped'),
        coalesce(array_agg(k.chain) filter (where k.status <> 'skipped'), '{}'), array_agg(distinct k.shard) filter (where k.due_at is not null)
      into v_ids, v_fires, v_going, v_shards
      from counted k;
      v_on := v_on || v_going;
      if v_shards is not null then
        perform pgrab_internal.ring(v_shards);
      end if;
    end if;
    if 'failed' = any (v_results) then
      update pgrab.chain c set stuck = true
      where c.id = any (array(select distinct f.chain from unnest(p_chains, p_results) f(chain, result) where f.result = 'failed' order by 1)) and c.root is null and not c.stuck;
    end if;
    if v_ids <> '{}' then
      v_results := array_fill('skipped'::text, array[cardinality(v_ids)]);
      v_all := v_all || v_ids;
      perform pgrab_internal.links_skip(v_ids);
    end if;
  end loop;
  if p_counted then
    perform pgrab_internal.chain_count(v_all);
  end if;
  -- Below the others nothing goes on.
  v_over := p_chains;
  if v_on <> '{}' or cardinality(p_chains) > 1 then
    v_over := array(select c.id from unnest(p_chains) c(id) except select o.id from unnest(v_on) o(id));
  end if;
  if v_over <> '{}' then
    perform pgrab_internal.chains_end(v_over);
  end if;
end $$;
comment on function pgrab_internal.chain_advance(bigint[], bigint[], text[], timestamptz[], boolean) is 'Internal: what the end of links sets in motion: children released or skipped, and with the last link the end of the chain''s run. In the transaction that finishes them.';

-- Links that can never start, as chain_advance has made them. They stay when their chain comes again, or a retry may bring them back.
create or replace function pgrab_internal.links_skip(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_gone bigint[];
begin
  insert into pgrab.run (task_id, attempt, version, chain_id, fire_at, finished_at, created_at, outcome, ended, kind, owner, name, error, definition)
  select t.id, 0, t.version, h.run, t.fire_at, clock_timestamp(), t.created_at, 'skipped', case when h.root is null then 'skipped' end, t.kind, t.owner, t.name,
    'a parent did not end as run_if asks', case when h.root is null then pgrab.definition(t) end
  from unnest((select p_ids)) s(id) join pgrab.task t on t.id = any (array[s.id]) cross join lateral (select * from pgrab.chain c where c.id = t.chain offset 0) h;
  v_gone := array(select t.id from unnest((select p_ids)) s(id) join pgrab.task t on t.id = any (array[s.id])
    cross join lateral (select * from pgrab.chain c where c.id = t.chain offset 0) h where h.root is null and not h.stuck);
  if v_gone <> '{}' then
    perform pgrab_internal.links_leave(v_gone);
  end if;
end $$;
comment on function pgrab_internal.links_skip(bigint[]) is 'Internal: puts on record that links will not run.';

-- The lock on the row of a chain with a schedule is the one under which its run ends.
create or replace function pgrab_internal.chain_count(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_chains bigint[];
  v_n bigint[];
begin
  select array_agg(n.chain order by n.chain), array_agg(n.n order by n.chain) into v_chains, v_n
  from (select t.chain, count(*) as n from unnest((select p_ids)) a(id) join pgrab.task t on t.id = any (array[a.id]) group by t.chain) n
    cross join lateral (select c.root from pgrab.chain c where c.id = n.chain offset 0) c
  where c.root is not null;
  perform from unnest((select v_chains)) n(chain) cross join lateral (select from pgrab.chain c where c.id = n.chain for update) l;
  update pgrab.chain c set pending = c.pending - n.n from unnest((select v_chains), (select v_n)) n(chain, n) where c.id = any (array[n.chain]);
  perform pgrab_internal.chain_end(c.id) from unnest((select v_chains)) n(chain) cross join lateral (select * from pgrab.chain c where c.id = n.chain offset 0) c where c.pending = 0;
  -- Its schedule was taken away while this transaction was about to end one of its links, which therefore is still there.
  v_chains := array(select distinct c.id from unnest((select p_ids)) a(id) join pgrab.task t on t.id = any (array[a.id])
    cross join lateral (select c.id, c.root from pgrab.chain c where c.id = t.chain offset 0) c where t.status in ('done', 'cancelled') and c.root is null order by 1);
  perform pgrab_internal.chain_once(n.chain) from unnest((select v_chains)) n(chain);
end $$;
comment on function pgrab_internal.chain_count(bigint[]) is 'Internal: counts ended links of recurring chains, and ends the run of those in which none is left.';

-- The end of a chain's run, when nothing is pending.
create or replace function pgrab_internal.chain_end(p_chain bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab.chain;
  r pgrab.task;
  v_loose pgrab.task;
  v_next timestamptz;
begin
  select * into h from pgrab.chain c where c.id = p_chain for update;
  if h.root is null then
    perform pgrab_internal.chains_end(array[p_chain]);
    return;
  elsif h.pending > 0 then
    return;
  end if;
  select * into r from pgrab.task t where t.id = h.root;
  if r.schedule is not null and (r.fires < r.max_runs or r.max_runs is null) then
    v_next := case when r.run_at > r.fire_at then r.run_at
      else pgrab.next_fire(r.schedule, r.timezone, pgrab_internal.fire_after(r, clock_timestamp())) end;
  end if;
  if v_next is null or v_next > r.ends_at then
    perform pgrab_internal.chain_once(p_chain);
    update pgrab.task t set schedule = null where t.id = r.id; -- it is parked
    return;
  end if;
  update pgrab.task t
  set status = 'waiting', needs = (select count(*) from pgrab_internal.parents_of(t.id)), met = 0, attempt = 0, due_at = null, version = t.version + 1, node_id = null, incarnation = null, claimed_at = null
  where t.chain = p_chain and t.id <> r.id;
  update pgrab.task t
  set status = 'scheduled', needs = 0, met = 0, attempt = 0, fire_at = v_next, run_at = v_next, due_at = case when not t.paused then v_next + pgrab_internal.jitter_of(t.id, t.jitter) end,
    version = t.version + 1, node_id = null, incarnation = null, claimed_at = null
  where t.id = r.id;
  update pgrab.chain c set run = nextval('pgrab.chain_run_seq'), pending = (select count(*) from pgrab.task t where t.chain = p_chain) where c.id = p_chain;
  delete from pgrab.edge_change g where g.chain = p_chain;
  -- What lost its last parent while the run was under way goes its own way now.
  for v_loose in select t.* from pgrab.task t where t.chain = p_chain and t.id <> r.id and t.needs = 0 order by t.id loop
    perform pgrab_internal.link_release(array[v_loose.id], array[v_loose.fire_at]);
    perform pgrab_internal.chain_split(v_loose.id);
  end loop;
  if v_next < clock_timestamp() + interval '1 s' then
    perform pgrab_internal.ring(array[r.shard]);
  end if;
end $$;
comment on function pgrab_internal.chain_end(bigint) is 'Internal: a recurring chain whose last link has ended is armed anew; after the last fire it is a chain that runs once.';

-- One link ends without a run, by a person's word or because it misfired. The caller holds its lock.
create or replace function pgrab_internal.link_end(t pgrab.task, p_outcome text, p_ended text, p_why text) returns pgrab.task
language plpgsql as $$
declare
  h pgrab.chain;
  v_takes_part boolean := t.needs is not null;
begin
  select * into h from pgrab.chain c where c.id = t.chain;
  perform pgrab_internal.note_fire(t, t.fire_at, p_outcome, p_why, case when h.root is null then p_ended end);
  if h.root is null then
    perform pgrab_internal.links_leave(array[t.id]);
    t.status := p_ended;
    t.due_at := null;
    t.node_id := null;
    t.incarnation := null;
  else
    update pgrab.task x set status = p_ended, due_at = null, needs = null, version = x.version + 1, node_id = null, incarnation = null, claimed_at = null where x.id = t.id returning x.* into t;
  end if;
  if v_takes_part then
    perform pgrab_internal.chain_advance(array[t.id], array[h.id], array[case p_ended when 'cancelled' then 'cancelled' else 'skipped' end], array[t.fire_at], h.root is not null);
  else
    perform pgrab_internal.chain_end(h.id); -- it was parked, which was its end
  end if;
  return t;
end $$;
comment on function pgrab_internal.link_end(pgrab.task, text, text, text) is 'Internal: ends a link that is not running.';

-- A link is parked without pgrab_internal.finish().
create or replace function pgrab_internal.link_parked(t pgrab.task) returns void
language plpgsql as $$
declare
  h pgrab.chain;
begin
  update pgrab.task x set needs = null where x.id = t.id;
  select * into h from pgrab.chain c where c.id = t.chain;
  perform pgrab_internal.chain_advance(array[t.id], array[h.id], array['failed'], array[t.fire_at], h.root is not null);
end $$;
comment on function pgrab_internal.link_parked(pgrab.task) is 'Internal: what the end of a link sets in motion that could not be recorded as it was.';

-- Everything of a chain that has not ended is cancelled; returns what is left running, for its nodes to stop.
create or replace function pgrab_internal.chain_cancel(p_chain bigint, p_why text) returns setof pgrab.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab.chain;
  v_ids bigint[];
begin
  perform from pgrab.task t where t.chain = p_chain order by t.id for update;
  select * into h from pgrab.chain c where c.id = p_chain for update;
  return query select t.* from pgrab.task t where t.chain = p_chain and t.status = 'running' order by t.id;
  v_ids := array(select t.id from pgrab.task t where t.chain = p_chain and t.status in ('waiting', 'scheduled', 'claimed', 'parked') and (t.needs is not null or t.status = 'parked') order by t.id);
  insert into pgrab.run (task_id, attempt, version, chain_id, fire_at, finished_at, created_at, outcome, ended, kind, owner, name, error, definition)
  select t.id, t.attempt, t.version, h.run, coalesce(case when t.status = 'waiting' then (select r.fire_at from pgrab.task r where r.id = h.root) end, t.fire_at), clock_timestamp(), t.created_at, 'cancelled', case when h.root is null then 'cancelled' end, t.kind, t.owner, t.name, p_why,
    case when h.root is null then pgrab.definition(t) end
  from pgrab.task t where t.id = any (v_ids);
  if h.root is null then
    perform pgrab_internal.links_leave(v_ids);
  else
    update pgrab.chain c set pending = c.pending - (select count(*) from pgrab.task t where t.id = any (v_ids) and t.needs is not null) where c.id = p_chain;
    update pgrab.task t set status = 'cancelled', due_at = null, needs = null, version = t.version + 1, node_id = null, incarnation = null, claimed_at = null where t.id = any (v_ids);
  end if;
  perform pgrab_internal.chain_end(p_chain);
end $$;
comment on function pgrab_internal.chain_cancel(bigint, text) is 'Internal: cancels what a chain has not ended yet, and returns its running links.';

create or replace function pgrab_internal.chain_of_ended(p_id bigint) returns table (chain bigint, root boolean)
language sql stable as $$
  select c.id, not coalesce(r.definition ?| array['parent_id', 'parents'], false)
  from pgrab.run r join pgrab.chain c on c.run = r.chain_id
  where r.task_id = p_id and r.ended is not null and not exists (select from pgrab.task t where t.id = p_id) and exists (select from pgrab.task t where t.chain = c.id and t.status not in ('done', 'cancelled', 'skipped'))
  limit 1
$$;
comment on function pgrab_internal.chain_of_ended(bigint) is 'Internal: the chain that a link has left and that goes on without it; was it a root?';

-- A parked link is tried again: what was skipped because of it waits again, unless something else keeps it from running.
create or replace function pgrab_internal.link_reopen(p_id bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_chain bigint;
  v_open bigint[] := array[p_id];
  v_more bigint[] := v_open;
begin
  select t.chain into v_chain from pgrab.task t where t.id = p_id;
  if v_chain is null then
    return;
  end if;
  perform from pgrab.task t where t.chain = v_chain order by t.id for update;
  perform from pgrab.chain c where c.id = v_chain for update;
  loop
    select array_agg(distinct t.id) into v_more
    from unnest(v_more) o(id) cross join lateral pgrab_internal.children_of(o.id) x join pgrab.task t on t.id = any (array[x.child_id])
    where t.status = 'skipped' and t.id <> all (v_open)
      and not exists (select from pgrab_internal.parents_of(t.id) a cross join lateral (select case when a.parent_id <> all (v_open) then pgrab_internal.parent_result(a.parent_id) end as result offset 0) p
        where not pgrab_internal.run_if_met(a.run_if, p.result));
    exit when v_more is null;
    v_open := v_open || v_more;
  end loop;
  update pgrab.chain c set pending = c.pending + (select count(*) from pgrab.task t where t.id = any (v_open) and t.needs is null) where c.id = v_chain and c.root is not null;
  update pgrab.task t
  set status = case when t.id = p_id then t.status else 'waiting' end, attempt = 0, version = t.version + 1,
    needs = case when t.id = p_id then 0 else (select count(*) from pgrab_internal.parents_in_run(t.id) a where a.parent_id = any (v_open) or pgrab_internal.parent_result(a.parent_id) is null) end,
    met = (select count(*) from pgrab_internal.parents_in_run(t.id) a where a.parent_id <> all (v_open) and pgrab_internal.parent_result(a.parent_id) <> 'skipped')
  where t.id = any (v_open)
    or t.status = 'waiting' and t.needs is not null and t.id = any (array(select x.child_id from unnest(v_open) o(id) cross join lateral pgrab_internal.children_of(o.id) x)); -- had counted the end that is taken back
  update pgrab.run r set ended = null, definition = null where r.task_id = any (v_open) and r.ended = 'skipped';
end $$;
comment on function pgrab_internal.link_reopen(bigint) is 'Internal: a parked link takes part again, and so does what was skipped because of it.';

create or replace function pgrab.delete_chain(p_id bigint) returns setof bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab.chain;
  v_chain bigint := (select e.chain from pgrab_internal.chain_of_ended(p_id) e);
  v_ids bigint[];
begin
  if v_chain is null then
    select t.chain into v_chain from pgrab_internal.control_lock(array[p_id], 'delete_chain') t;
  end if;
  select * into h from pgrab.chain c where c.id = v_chain;
  select pgrab_internal.chain_part(p_id, array_agg(x.id), array_agg(l.id)) into v_ids from pgrab_internal.chain_links(h.run) l cross join unnest(l.parents) x(id);
  v_ids := array(select t.id from pgrab.task t where t.id = any (v_ids) order by t.id for update);
  perform pgrab_internal.refuse_awaited(array(select t.id from pgrab.task t where t.id = any (v_ids) and t.needs is not null));
  perform pgrab_internal.links_leave(v_ids);
  if h.root = any (v_ids) then
    perform pgrab_internal.chain_once(h.id);
  elsif h.id is not null then
    update pgrab.chain c set pending = (select count(*) from pgrab.task t where t.chain = c.id and t.needs is not null) where c.id = h.id and c.root is not null;
    perform pgrab_internal.chain_end(h.id);
  end if;
  return query select unnest(v_ids);
end $$;
comment on function pgrab.delete_chain(bigint) is 'Deletes a task with everything that hangs below it; what runs of it is not accepted any more. Returns the ids.';
