-- Changes to chains by users: edges.  See 28_chain_graph.sql; for links and whole chains, 29_chain_edit.sql.

-- Looks at this edge only; edge_shape_check() looks at the whole graph.
create or replace function pgrab_internal.edge_check(p pgrab_internal.task, c pgrab_internal.task)
returns void
language plpgsql as $$
declare
  v_recurs constant boolean := p.schedule is not null
    or exists (select from pgrab.chain h where h.chain = p.chain and h.root is not null);
begin
  if c.schedule is not null then
    perform pgrab_internal.chain_refuse(p.id, c.id, 'the child has a schedule',
      'Only the root of a chain can have one. Set schedule = null for the child.');
  elsif not v_recurs and exists (
    select from pgrab.chain h where h.chain = c.chain and h.root is not null) then
    perform pgrab_internal.edge_refuse_root(p.id, c.id);
  elsif v_recurs and (c.chain is null or c.chain is distinct from p.chain) and (
    c.status not in ('waiting', 'scheduled', 'claimed') or pgrab_internal.has_begun(c.attempt, c.steps)
    or pgrab_internal.chain_begun(c.chain)
    or exists (
      select from pgrab.task x
      where x.chain = c.chain
        and (x.status not in ('waiting', 'scheduled', 'claimed')
          or pgrab_internal.has_begun(x.attempt, x.steps)))) then
    perform pgrab_internal.chain_refuse(p.id, c.id, 'its chain has begun, and runs once',
      'Only tasks that have not begun can become part of a recurring chain.');
  end if;
end $$;
comment on function pgrab_internal.edge_check is
  'Refuses an edge between two tasks that cannot be in one chain.';

create or replace function pgrab_internal.edge_refuse_root(p_parent bigint, p_child bigint) returns void
language sql as $$
  select pgrab_internal.chain_refuse(p_parent, p_child, 'the chain has a schedule and would have two roots',
    'Everything in a recurring chain must be below the task that has the schedule.')
$$;
comment on function pgrab_internal.edge_refuse_root is
  'Refuses an edge that would give a recurring chain a second root.';

create or replace function pgrab_internal.edge_shape_check(p_chain bigint, p_parent bigint, p_child bigint)
returns void
language plpgsql as $$
begin
  if exists (
    with recursive below(id) as (
      select p_child
      union
      select x.child_id from below b cross join lateral pgrab_internal.children_of(b.id) x)
    select from below b where b.id = p_parent) then
    perform pgrab_internal.chain_refuse(p_parent, p_child,
      'it would wait for itself: it is already below that task',
      'A chain cannot have cycles; remove the other edge first.');
  elsif pgrab_internal.chain_second_root(p_chain) is not null then
    perform pgrab_internal.edge_refuse_root(p_parent, p_child);
  end if;
end $$;
comment on function pgrab_internal.edge_shape_check is
  'Refuses an edge that would close a cycle, or give a recurring chain a second root.';

create or replace function pgrab_internal.edge_chain(p pgrab_internal.task, c pgrab_internal.task)
returns bigint
language plpgsql as $$
declare
  v_to constant bigint := coalesce(p.chain, pgrab_internal.chain_new(p));
  v_from constant bigint := coalesce(c.chain, pgrab_internal.chain_new(c));
begin
  if v_to <> v_from and pgrab_internal.chain_under_way(v_to) then
    -- Everything below the child comes with it, and takes no part in the current run, either.
    perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version, 'join', p_met => 0)))
    from pgrab.task t where t.chain = v_from;
  end if;
  return pgrab_internal.chain_merge(v_to, v_from);
end $$;
comment on function pgrab_internal.edge_chain is
  'Makes the chains of two tasks, which are locked, one; returns it.';

create or replace function pgrab_internal.edge_add(p_parent bigint, p_child bigint, p_run_if text)
returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p pgrab_internal.task;
  c pgrab_internal.task;
  v_chain bigint;
begin
  perform from pgrab.task t where t.id in (p_parent, p_child) order by t.id for update;
  select * into c from pgrab.task t where t.id = p_child;
  if not found then
    perform pgrab_internal.chain_refuse(p_parent, p_child, format('there is no task %s', p_child),
      'Insert the child first.');
  end if;
  p := pgrab_internal.chain_parent(p_parent, p_child, c.owner);
  perform pgrab_internal.chain_lock(array[p.chain, c.chain]);
  perform pgrab_internal.edge_check(p, c);
  v_chain := pgrab_internal.edge_chain(p, c);
  perform pgrab_internal.edge_shape_check(v_chain, p_parent, p_child);
  perform pgrab_internal.batch_edge_check(v_chain, p_parent, p_child);
  if pgrab_internal.chain_under_way(v_chain) then
    insert into pgrab.edge_change values (v_chain, p_parent, p_child, p_run_if, true);
    perform pgrab_internal.link_touch(p_child, v_chain);
    return;
  elsif p.status = 'parked' then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it is parked',
      format('select pgrab.retry(%s) first.', p_parent));
  end if;
  select * into c from pgrab.task t where t.id = p_child;
  if c.status not in ('waiting', 'scheduled', 'claimed') or pgrab_internal.has_begun(c.attempt, c.steps) then
    perform pgrab_internal.chain_refuse(p_parent, p_child,
      format('the child is %s', case when pgrab_internal.has_begun(c.attempt, c.steps)
        then 'being tried' else c.status end),
      'A task must get its parents before it starts.');
  end if;
  perform pgrab_internal.move(array[
    pgrab_internal.move_to(c.id, c.version, 'wait', p_needs => coalesce(c.needs, 0) + 1)]);
end $$;
comment on function pgrab_internal.edge_add is
  'Adds an edge between two existing tasks: checks it and makes the child wait.';

-- In a chain with a schedule, what has a parent is below the root, whatever else has lost one in the same
-- statement: above it is a link without a parent, which is the root, or is split off with all that is below
-- it when its own edge is dropped.  (While the chain runs, what is no longer connected stays to the end.)
create or replace function pgrab_internal.below_root(h pgrab_internal.chain, p_id bigint) returns boolean
language sql stable
return h.root is not null
  and exists (select from pgrab_internal.parents_of(p_id) x join pgrab.task t on t.id = x.parent_id
    where t.chain = h.chain)
  and not exists (select from pgrab.edge_change g where g.chain = h.chain);
comment on function pgrab_internal.below_root is
  'True: this link of a chain with a schedule is surely still connected with its root.';

-- In a chain that runs once, the child waits for one parent less; in a recurring one that is running, from
-- the next fire on.  Between two runs, a child that is released starts for a fire of its own, because it has
-- already run for the last one.
create or replace function pgrab_internal.edge_drop(p_parent bigint, p_child bigint, p_run_if text)
returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  p pgrab_internal.task;
  c pgrab_internal.task;
begin
  perform from pgrab.task t where t.id in (p_parent, p_child) order by t.id for update;
  select * into p from pgrab.task t where t.id = p_parent;
  select * into c from pgrab.task t where t.id = p_child;
  perform pgrab_internal.chain_lock(array[c.chain]);
  select * into h from pgrab.chain x where x.chain = c.chain;
  if not found then
    return;
  end if;
  delete from pgrab.edge_change g where g.parent_id = p_parent and g.child_id = p_child and g.added;
  if found or not pgrab_internal.takes_part(c.status, c.needs) then
    null; -- it has never counted (and the chain may have lost its schedule since)
  elsif pgrab_internal.chain_under_way(c.chain) then
    insert into pgrab.edge_change values (c.chain, p_parent, p_child, p_run_if, false);
  elsif c.status <> 'waiting' or c.needs = 0 or p.id is null or pgrab_internal.ended(p.status) then
    null; -- it does not wait for that parent
  elsif c.needs > 1 then
    perform pgrab_internal.move(array[
      pgrab_internal.move_to(c.id, c.version, 'wait', p_needs => c.needs - 1)]);
  else
    perform pgrab_internal.links_free(array[c.id],
      array[case when h.root is null then c.fire_at else greatest(clock_timestamp(), c.run_at) end]);
  end if;
  if not pgrab_internal.below_root(h, p_child) then
    perform pgrab_internal.chain_split(p_child);
  end if;
  -- A parent that was added while the chain runs may have been connected with it by this edge alone.
  if p.id is not null and not pgrab_internal.takes_part(p.status, p.needs) then
    perform pgrab_internal.chain_split(p_parent);
  end if;
end $$;
comment on function pgrab_internal.edge_drop is 'Removes an edge: the child no longer waits for that parent.';

create or replace function pgrab_internal.edge_dropped_check(p_parent bigint, p_child bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  if not exists (select from pgrab_internal.parents_of(p_child))
    and pgrab_internal.chain_second_root((
      select t.chain from pgrab.task t where t.id = p_child)) = p_child then
    raise exception using errcode = '22023', schema = 'pgrab', table = 'task', column = 'parent_id',
      message = format('task %s cannot lose its last parent, %s: the chain has a schedule and would have two '
        'roots', p_child, p_parent),
      hint = 'It is still connected with the root through its children. Give it another parent first, or '
        'remove the edges to its children first.';
  end if;
end $$;
comment on function pgrab_internal.edge_dropped_check is
  'Refuses to remove the last edge above a link that would then be a second root.';

create or replace function pgrab_internal.edge_changed() returns trigger
language plpgsql as $$
begin
  if tg_op <> 'INSERT' then
    perform pgrab_internal.edge_drop(old.parent_id, old.child_id, old.run_if);
  end if;
  if tg_op <> 'DELETE' then
    if exists (select from pgrab.task t where t.id = new.child_id and t.parent_id = new.parent_id) then
      perform pgrab_internal.chain_refuse(new.parent_id, new.child_id, 'it is its parent_id already',
        'One edge between two tasks is enough.');
    end if;
    perform pgrab_internal.edge_add(new.parent_id, new.child_id, new.run_if);
  end if;
  if tg_op <> 'INSERT' then
    perform pgrab_internal.edge_dropped_check(old.parent_id, old.child_id);
  end if;
  return null;
end $$;
comment on function pgrab_internal.edge_changed is 'Keeps chains consistent when pgrab.edge changes.';
create trigger edge_10_changed after insert or update on pgrab.edge
  for each row execute function pgrab_internal.edge_changed();

create or replace function pgrab_internal.edge_truncate() returns trigger
language plpgsql as $$
begin
  raise exception using errcode = '0A000',
    message = 'pgrab.edge cannot be truncated: the children would wait for ever',
    hint = 'Use delete from pgrab.edge, which lets them start.';
end $$;
comment on function pgrab_internal.edge_truncate is
  'Refuses TRUNCATE, which does not tell triggers which rows are removed.';
create trigger edge_30_truncate before truncate on pgrab.edge
  for each statement execute function pgrab_internal.edge_truncate();

create or replace function pgrab_internal.task_relink() returns trigger
language plpgsql as $$
begin
  if old.parent_id is not null then
    perform pgrab_internal.edge_drop(old.parent_id, old.id, old.run_if);
  end if;
  if new.parent_id is not null then
    if exists (select from pgrab.edge e where e.parent_id = new.parent_id and e.child_id = new.id) then
      perform pgrab_internal.chain_refuse(new.parent_id, new.id, 'there is an edge between them already',
        'One edge between two tasks is enough.');
    end if;
    perform pgrab_internal.edge_add(new.parent_id, new.id, new.run_if);
  end if;
  if old.parent_id is not null then
    perform pgrab_internal.edge_dropped_check(old.parent_id, old.id);
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_relink is 'Moves the edge when parent_id or run_if changes.';
create trigger task_30_relink after update of parent_id, run_if on pgrab.task for each row
  when (old.parent_id is distinct from new.parent_id
    or old.run_if <> new.run_if and new.parent_id is not null)
  execute function pgrab_internal.task_relink();
