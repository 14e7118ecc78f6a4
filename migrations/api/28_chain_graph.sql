-- Chains: the graph, its rules, and how chains come together and apart.
--
--   28_chain_graph.sql  this file
--   28_chain_link.sql   what the end of a link sets in motion
--   28_chain_run.sql    a chain's run: its beginning, its end, and the next one
--   28_chain_skip.sql   what can never start any more
--   29_chain_edge.sql   changes by users: edges
--   29_chain_edit.sql   changes by users: new links, schedules, deletes, retries
--   29_chain_read.sql   outputs passed to children, trees, results
--
-- The edges are pgrab.task.parent_id and the rows of pgrab.edge.  Connected tasks form one chain
-- (pgrab.chain).  It has either one root with a schedule, above everything else in it, or any number of roots
-- without one.
--
-- A link counts the parents that have yet to end (needs), under its own row lock, so that two parents that
-- end at the same moment on two nodes release it once:
--   success, failure   require just that end of the parent; after any other end the link is skipped
--   always             accepts any end; but a link whose parents were all skipped is skipped
--
-- A chain that runs once: a link leaves pgrab.task with its end like any other task, and the history
-- (pgrab.run.ended, definition) remembers it.  Nothing is counted, and unrelated links share no lock.  A link
-- that failed for good is parked, so that pgrab.retry() can continue from there; links that are skipped from
-- then on (pgrab.chain.stuck) are kept for that.
--
-- A chain with a schedule: links that have ended stay, and are counted (pending).  The run is over when the
-- last one ends: the root is armed again and all links wait again.  A run follows the graph that it began
-- with; changes since then are in pgrab.edge_change.  A link that was added since takes no part in the run
-- (waiting, needs is null).  Links that are no longer below the root when the run is over leave the chain,
-- and pgrab.task too if they have ended (chain_part_leaves).
--
-- Locks are taken in this order: tasks by id, parents before children (only users lock a child that waits),
-- then chains by number.  A lock says nothing to a repeatable read transaction, which goes on with what it
-- saw before; a changed row does (40001).  So a statement that changes the graph also writes the rows that
-- others lock before they look at it: its chain (chain_lock), and the parent of a new link (link_touch).
--
-- The settings of the functions, and conditions like `id = any (array[...])`, keep their plans stable: see
-- the head of 26_finish.sql.  Functions that run in users' sessions have them, too: a plan that was made
-- while the table was small stays with the session.

create or replace function pgrab_internal.parents_of(p_id bigint)
returns table (parent_id bigint, run_if text)
language sql stable
begin atomic
  select t.parent_id, t.run_if from pgrab.task t
  where t.id = any (array[p_id]) and case when t.parent_id is not null then true end
  union all
  select e.parent_id, e.run_if from pgrab.edge e where e.child_id = p_id;
end;
comment on function pgrab_internal.parents_of is 'The parents of a task and which end of each it waits for.';

create or replace function pgrab_internal.children_of(p_id bigint)
returns table (child_id bigint, run_if text)
language sql stable
begin atomic
  select t.id, t.run_if from pgrab.task t where t.parent_id = p_id
  union all
  select e.child_id, e.run_if from pgrab.edge e where e.parent_id = p_id;
end;
comment on function pgrab_internal.children_of is 'The children of a task and which end of it starts each.';

create or replace function pgrab_internal.parents_in_run(p_id bigint)
returns table (parent_id bigint, run_if text)
language sql stable
begin atomic
  select a.parent_id, a.run_if from pgrab_internal.parents_of(p_id) a
  where not exists (
    select from pgrab.edge_change g where g.parent_id = a.parent_id and g.child_id = p_id and g.added)
  union all
  select g.parent_id, g.run_if from pgrab.edge_change g where g.child_id = p_id and not g.added;
end;
comment on function pgrab_internal.parents_in_run is
  'The parents that count in the current run of the chain.';

create or replace function pgrab_internal.takes_part(p_status text, p_needs integer) returns boolean
language sql immutable
return p_status <> 'waiting' or p_needs is not null;
comment on function pgrab_internal.takes_part is
  'Does a link take part in the current run of its chain? If not, it was added since that began.';

-- A hash join reads the edges once; any other join reads them once per step of a long line.
create or replace function pgrab_internal.chain_part(p_from bigint, p_a bigint[], p_b bigint[])
returns bigint[]
language sql immutable set enable_hashjoin = on set enable_mergejoin = off set enable_nestloop = off as $$
  with recursive part(id) as (
    select p_from
    union
    select e.b from part p join unnest(p_a, p_b) e(a, b) on e.a = p.id)
  select array_agg(p.id) from part p
$$;
comment on function pgrab_internal.chain_part is
  'What can be reached from a task along edges from a to b, itself included.';

create or replace function pgrab_internal.chain_below(p_id bigint, p_chain_id bigint) returns bigint[]
language plpgsql stable as $$
begin
  return (
    select pgrab_internal.chain_part(p_id, array_agg(x.id), array_agg(l.id))
    from pgrab_internal.chain_links(p_chain_id) l cross join unnest(l.parents) x(id));
end $$;
comment on function pgrab_internal.chain_below is
  'A link and everything below it, found also through links that have left.';

-- A link that has lost its last edge is alone, and the rest of its chain need not be read: a thousand edges
-- of one parent may be deleted at once.
create or replace function pgrab_internal.chain_around(p_id bigint, p_chain_id bigint) returns bigint[]
language plpgsql stable as $$
begin
  if not exists (select from pgrab_internal.parents_of(p_id))
    and not exists (select from pgrab_internal.children_of(p_id))
    and not exists (select from pgrab_internal.links_left(p_chain_id)) then
    return array[p_id];
  end if;
  return (
    select pgrab_internal.chain_part(p_id, array_agg(e.a), array_agg(e.b))
    from pgrab_internal.chain_links(p_chain_id) l cross join unnest(l.parents) x(id)
      cross join lateral (values (x.id, l.id), (l.id, x.id)) e(a, b));
end $$;
comment on function pgrab_internal.chain_around is
  'A link and everything connected with it, also through links that have left.';

create or replace function pgrab_internal.chain_refuse(p_parent bigint, p_child bigint, p_why text,
  p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023',
    message = format('task %s cannot be a parent of task %s: %s', p_parent, p_child, p_why), hint = p_hint,
    schema = 'pgrab', table = 'task', column = 'parent_id';
end $$;
comment on function pgrab_internal.chain_refuse is 'Refuses an edge.';

-- A parent that is not even in the history any more counts as done.
create or replace function pgrab_internal.parent_status(p_id bigint) returns text
language sql stable
begin atomic
  select case when t.id is null then coalesce(h.ended, 'done')
    when pgrab_internal.ended(t.status) then t.status end
  from (select p_id as id) p
    left join pgrab.task t on t.id = p.id
    left join lateral (
      select r.ended from pgrab.last_run(p.id, 'ended') r where t.id is null) h on true;
end;
comment on function pgrab_internal.parent_status is
  'How a parent has ended, even if it has left pgrab.task. Null: it has not ended.';

create or replace function pgrab_internal.run_if_met(p_run_if text, p_status text) returns boolean
language sql immutable
return case p_run_if when 'success' then p_status = 'done' when 'failure' then p_status = 'parked'
  else true end;
comment on function pgrab_internal.run_if_met is
  'May a child start, as far as this parent is concerned, which has ended so?';

-- A day more than since, in case the clock was set back.  Statements that get this time as a parameter, and a
-- plan of their own, neither plan nor lock the days before.
create or replace function pgrab_internal.chain_after(p_chain bigint) returns timestamptz
language sql stable
return (select c.since - interval '1 day' from pgrab.chain c where c.chain = any (array[p_chain]));
comment on function pgrab_internal.chain_after is 'The history of this run of a chain is younger than this.';

create or replace function pgrab_internal.chain_begun(p_chain bigint) returns boolean
language plpgsql stable set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  c_after constant timestamptz := pgrab_internal.chain_after(p_chain);
begin
  return exists (
    select from pgrab.chain c join pgrab.run r on r.chain_id = c.chain_id
    where c.chain = p_chain and r.ended is not null and r.finished_at > c_after);
end $$;
comment on function pgrab_internal.chain_begun is 'Has a link of a chain that runs once left it?';

create or replace function pgrab_internal.chain_renumber(
  p_chain_id bigint, p_after timestamptz, p_into bigint, p_ids bigint[] default null) returns void
language plpgsql set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  update pgrab.run r set chain_id = p_into
  where r.chain_id = p_chain_id and r.finished_at > p_after
    and (p_ids is null or r.task_id = any (p_ids));
end $$;
comment on function pgrab_internal.chain_renumber is
  'Links of a run of a chain that have left now count to another run; p_ids: only these.';

-- What a link has left in the history last says whether it has ended for good: it has when it ended in a run
-- that is the chain's last, and has not when it is brought back.
create or replace function pgrab_internal.links_ended(
  p_chain bigint, p_after timestamptz, p_ids bigint[] default null) returns void
language plpgsql set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  c_run constant bigint := (select c.chain_id from pgrab.chain c where c.chain = p_chain);
begin
  update pgrab.run r
  set ended = e.ended, definition = case when e.ended is not null
      then pgrab.definition_of(t.id, r.version) - '{kind,name}'::text[]
        || coalesce(pgrab_internal.edges_above(t.id), '{}') end
  from pgrab.task t cross join lateral (
    select case when pgrab_internal.is_over(t.status) then t.status end as ended) e
  where t.chain = p_chain and (p_ids is null or t.id = any (p_ids)) and r.task_id = t.id
    and r.chain_id = c_run and r.finished_at > p_after and r.ended is distinct from e.ended
    and r.finished_at = (
      select max(y.finished_at) from pgrab.run y
      where y.task_id = t.id and y.chain_id = c_run and y.finished_at > p_after);
end $$;
comment on function pgrab_internal.links_ended is
  'Writes into the history of this run of a chain whether its links have ended for good; p_ids: only these.';

create or replace function pgrab_internal.chain_under_way(p_chain bigint) returns boolean
language sql stable
return exists (
  select from pgrab.chain c join pgrab.task t on t.id = c.root
  where c.chain = p_chain and (t.status not in ('waiting', 'scheduled', 'claimed')
    or pgrab_internal.has_begun(t.attempt, t.steps)));
comment on function pgrab_internal.chain_under_way is
  'True while a recurring chain runs, from the start of its root to the end of its last link. A change to '
  'its graph then counts from the next fire on.';

create or replace function pgrab_internal.chain_settled(p_chains bigint[]) returns void
language plpgsql as $$
declare
  v_task bigint;
begin
  select s.task_id into v_task from pgrab.skipping s where s.chain = any (p_chains) limit 1;
  if found then
    raise exception using errcode = '55000', schema = 'pgrab', table = 'task',
      message = format('what hangs below task %s is being skipped', v_task),
      hint = 'Its chain is long. Try again in a few seconds, when all of it has been skipped.';
  end if;
end $$;
comment on function pgrab_internal.chain_settled is
  'Refuses to change a chain as long as links are left to be skipped.';

-- The rows are written once per transaction: each version of a row makes the next search for it longer.
create or replace function pgrab_internal.chain_lock(p_chains bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  perform from pgrab.chain c where c.chain = any (p_chains) order by c.chain for update;
  perform pgrab_internal.chain_settled(p_chains);
  update pgrab.chain c set chain_id = c.chain_id
  where c.chain = any (p_chains) and c.xmin <> pg_current_xact_id()::xid;
end $$;
comment on function pgrab_internal.chain_lock is
  'Locks chains whose graph is about to change, so that what another transaction changes is either seen, or '
  'waits, or fails because its snapshot is too old.';

-- No move: a link that runs goes on as it was started.  A row that is in that chain already is written all
-- the same, once per transaction: see link_touch().
create or replace function pgrab_internal.chain_put(p_ids bigint[], p_chain bigint) returns void
language plpgsql as $$
begin
  update pgrab.task t
  set chain = p_chain, met = coalesce(t.met, 0),
    needs = case when t.chain is not null then t.needs when t.status <> 'parked' then 0 end
  where t.id = any (p_ids) and (t.chain is distinct from p_chain or t.xmin <> pg_current_xact_id()::xid);
end $$;
comment on function pgrab_internal.chain_put is
  'Puts links into a chain; a task on its own comes to it as a root.';

create or replace function pgrab_internal.link_touch(p_id bigint, p_chain bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  if p_chain is not null and current_setting('pgrab.touched', true) is distinct from p_id::text then
    perform pgrab_internal.chain_put(array[p_id], p_chain);
    perform set_config('pgrab.touched', p_id::text, true); -- in a savepoint xmin does not tell
  end if;
end $$;
comment on function pgrab_internal.link_touch is
  'Writes the row of a link that is given a child or a parent, so that an older snapshot can neither end '
  'nor delete it without them. For a task on its own chain_new() does.';

-- Checks the parent only; the caller checks the other rules for edges.
create or replace function pgrab_internal.chain_parent(p_parent bigint, p_child bigint, p_owner text)
returns pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p pgrab_internal.task;
  v_ended text;
begin
  if p_parent = p_child then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it is the task itself',
      'A task can only wait for others. To run it again and again, give it a schedule.');
  end if;
  select * into p from pgrab.task t
  where t.id = p_parent and (t.owner = p_owner or not (select c.roles from pgrab.cluster c)) for update;
  if not found then
    select r.ended into v_ended from pgrab.last_run(p_parent, 'ended') r
    where r.owner = p_owner or not (select c.roles from pgrab.cluster c);
    perform pgrab_internal.chain_refuse(p_parent, p_child,
      coalesce('it has ended: ' || v_ended, 'there is no such task'),
      'Insert parents and children in one transaction: then the parent cannot end before its children '
      'exist.');
  elsif p.owner <> p_owner then
    perform pgrab_internal.chain_refuse(p_parent, p_child,
      format('it belongs to %s, not to %s', p.owner, p_owner), 'A chain has one owner.');
  elsif pgrab_internal.is_over(p.status)
    and not exists (select from pgrab.chain c where c.chain = p.chain and c.root is not null) then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it has ended: ' || p.status,
      'Give the new task another parent, or none.');
  end if;
  perform pgrab_internal.link_touch(p_parent, p.chain);
  return p;
end $$;
comment on function pgrab_internal.chain_parent is
  'The parent of a new edge, locked; refuses a task that cannot be a parent.';

create or replace function pgrab_internal.chain_new(p pgrab_internal.task) returns bigint
language plpgsql as $$
declare
  v_chain bigint;
  v_parked constant boolean := p.status = 'parked';
begin
  insert into pgrab.chain (root, pending, stuck)
  values (case when p.schedule is not null then p.id end,
    case when p.schedule is not null then case when v_parked then 0 else 1 end end,
    p.schedule is null and v_parked)
  returning chain into v_chain;
  perform pgrab_internal.chain_put(array[p.id], v_chain);
  return v_chain;
end $$;
comment on function pgrab_internal.chain_new is 'Makes a task on its own the root of a new chain.';

create or replace function pgrab_internal.chain_recount(p_chains bigint[]) returns void
language sql as $$
  update pgrab.chain c
  set pending = case when c.root is not null then (
    select count(*) from pgrab.task t where t.chain = c.chain and t.needs is not null) end
  where c.chain = any (p_chains)
$$;
comment on function pgrab_internal.chain_recount is
  'Recounts the links that chains with a schedule wait for.';

-- The caller has locked both.
create or replace function pgrab_internal.chain_merge(a bigint, b bigint) returns bigint
language plpgsql as $$
declare
  v_into pgrab_internal.chain;
  v_from pgrab_internal.chain;
begin
  if a <> b then
    select * into v_into from pgrab.chain c where c.chain = least(a, b);
    delete from pgrab.chain c where c.chain = greatest(a, b) returning * into v_from;
    perform pgrab_internal.chain_put(array(
      select t.id from pgrab.task t where t.chain = v_from.chain), v_into.chain);
    update pgrab.edge_change g set chain = v_into.chain where g.chain = v_from.chain;
    perform pgrab_internal.chain_renumber(v_from.chain_id, v_from.since - interval '1 day', v_into.chain_id);
    v_into.root := coalesce(v_into.root, v_from.root);
    update pgrab.chain c
    set root = v_into.root, stuck = v_into.root is null and (c.stuck or v_from.stuck),
      since = least(c.since, v_from.since)
    where c.chain = v_into.chain;
    perform pgrab_internal.chain_recount(array[v_into.chain]);
  end if;
  return least(a, b);
end $$;
comment on function pgrab_internal.chain_merge is 'Makes two chains one; returns its number.';

-- A chain with a schedule has one root.  A link without a parent is fine if it is no longer connected with
-- the root: it leaves when the run ends.
create or replace function pgrab_internal.chain_second_root(p_chain bigint) returns bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  v_tops bigint[];
  v_around bigint[];
begin
  select * into h from pgrab.chain c where c.chain = p_chain and c.root is not null for update;
  v_tops := array(
    select t.id from pgrab.task t
    where t.chain = h.chain and t.id <> h.root and not exists (select from pgrab_internal.parents_of(t.id)));
  if v_tops = '{}' then
    return null;
  end if;
  v_around := pgrab_internal.chain_around(h.root, h.chain_id);
  return (select min(x.id) from unnest(v_tops) x(id) where x.id = any (v_around));
end $$;
comment on function pgrab_internal.chain_second_root is
  'A second root in a chain with a schedule. Null: there is none, as it should be.';

create or replace function pgrab_internal.chain_cut(h pgrab_internal.chain, p_part bigint[]) returns bigint
language plpgsql as $$
declare
  v_new pgrab_internal.chain;
begin
  insert into pgrab.chain (root, stuck, since)
  values (case when h.root = any (p_part) then h.root end, h.stuck, h.since)
  returning * into v_new;
  perform pgrab_internal.chain_put(array(
    select t.id from pgrab.task t where t.chain = h.chain and t.id = any (p_part)), v_new.chain);
  if h.root is null then
    perform pgrab_internal.chain_renumber(
      h.chain_id, h.since - interval '1 day', v_new.chain_id, p_part);
  end if;
  return v_new.chain;
end $$;
comment on function pgrab_internal.chain_cut is
  'Makes a part of a chain a chain of its own, which it returns.';

-- Called when an edge has been removed.  Links that take part in a run in progress stay until it ends.
create or replace function pgrab_internal.chain_split(p_id bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  t pgrab_internal.task;
  v_part bigint[];
  v_new bigint;
begin
  select * into t from pgrab.task x where x.id = p_id;
  select * into h from pgrab.chain c where c.chain = t.chain for update;
  if not found then
    return;
  end if;
  v_part := pgrab_internal.chain_around(p_id, h.chain_id);
  if not exists (select from pgrab.task x where x.chain = h.chain and x.id <> all (v_part))
    or exists (select from pgrab.edge_change g where g.chain = h.chain)
      and exists (select from pgrab.task x
        where x.id = any (v_part) and pgrab_internal.takes_part(x.status, x.needs)) then
    return;
  end if;
  if cardinality(v_part) = 1
    and (t.status in ('scheduled', 'claimed') or not pgrab_internal.takes_part(t.status, t.needs)
      or pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation)) then
    perform pgrab_internal.links_begin(array[p_id]);
    perform pgrab_internal.move(array[pgrab_internal.move_to(x.id, x.version, 'part', p_due_at => x.due_at,
      p_fire_at => case when pgrab_internal.has_begun(x.attempt, x.steps) then x.fire_at
        else greatest(x.fire_at, x.run_at) end)])
    from pgrab.task x where x.id = p_id;
  else
    v_new := pgrab_internal.chain_cut(h, v_part);
  end if;
  update pgrab.chain c set root = null where c.chain = h.chain and c.root = any (v_part);
  perform pgrab_internal.chain_recount(array[h.chain, v_new]);
  perform pgrab_internal.chain_once(c.chain) from pgrab.chain c
  where c.chain = v_new and c.root is null and h.root is not null;
  perform pgrab_internal.chain_end(c) from unnest(array[h.chain, v_new]) c where c is not null;
end $$;
comment on function pgrab_internal.chain_split is
  'Makes everything connected with a task a chain of its own, if that is no longer the whole chain.';
