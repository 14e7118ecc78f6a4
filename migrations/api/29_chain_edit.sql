-- What people change of chains: new links, edges, schedules, deletes, retries.  See 28_chain_graph.sql.

-- For a row that is being inserted with a parent_id.  What it changes besides the row is in task_inserted(),
-- because the row of an upsert that only updates never gets that far.
create or replace function pgrab_internal.chain_join(t pgrab_internal.task) returns pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p constant pgrab_internal.task := pgrab_internal.chain_parent(t.parent_id, t.id, t.owner);
begin
  t.chain := coalesce(p.chain, pgrab_internal.chain_new(p));
  t.status := 'waiting';
  t.due_at := null;
  t.fire_at := p.fire_at;
  t.met := 0;
  if not pgrab_internal.chain_under_way(t.chain) then
    if p.status = 'parked' then
      perform pgrab_internal.chain_refuse(p.id, t.id, 'it is parked',
        format('select pgrab.retry(%s) first, or give the new task another parent.', p.id));
    end if;
    t.needs := 1;
  end if;
  return t;
end $$;
comment on function pgrab_internal.chain_join(pgrab_internal.task) is
  'Makes a new task a link of its parent''s chain; if that is running, from the next fire on.';

create or replace function pgrab_internal.chain_schedule_check(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  if exists (select from pgrab_internal.parents_of(t.id)) then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'A task with a parent starts when that has ended; the schedule belongs to the root of its chain.');
  elsif exists (
    select from pgrab.task x
    where x.chain = t.chain and x.id <> t.id
      and not exists (select from pgrab_internal.parents_of(x.id))) then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'Its chain has other roots; everything in a recurring chain hangs below the task that has the '
      'schedule.');
  elsif t.status not in ('scheduled', 'claimed', 'parked') or t.status <> 'parked' and t.attempt > 0
    or exists (select from pgrab.chain c where c.chain = t.chain and pgrab_internal.chain_begun(c.chain_id))
    or exists (
      select from pgrab.task x where x.chain = t.chain and x.id <> t.id and x.status <> 'waiting') then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'Its chain has begun and runs once. Insert a new chain, with the schedule on its root.');
  end if;
end $$;
comment on function pgrab_internal.chain_schedule_check(pgrab_internal.task) is
  'Refuses the schedule of a link that is not the only root of a chain that has not begun.';

create or replace function pgrab_internal.task_reschedule() returns trigger
language plpgsql as $$
begin
  if new.schedule is null then
    perform pgrab_internal.chain_once(new.chain);
    return null;
  end if;
  perform pgrab_internal.chain_schedule_check(row(new.*)::pgrab_internal.task);
  update pgrab.chain c set root = new.id, stuck = false where c.chain = new.chain;
  perform pgrab_internal.chain_recount(array[new.chain]);
  return null;
end $$;
comment on function pgrab_internal.task_reschedule() is 'A link with a schedule from now on, or without.';
create trigger task_40_reschedule after update of schedule on pgrab.task for each row
  when (new.chain is not null and (old.schedule is null) <> (new.schedule is null))
  execute function pgrab_internal.task_reschedule();

-- What may come below what, so far as one edge goes; the shape of the whole is edge_shape_check()'s.
create or replace function pgrab_internal.edge_check(p pgrab_internal.task, c pgrab_internal.task)
returns void
language plpgsql as $$
declare
  v_recurs constant boolean := p.schedule is not null
    or exists (select from pgrab.chain h where h.chain = p.chain and h.root is not null);
begin
  if c.schedule is not null then
    perform pgrab_internal.chain_refuse(p.id, c.id, 'the child has a schedule',
      'Only the root of a chain has one. update pgrab.task set schedule = null for the child.');
  elsif not v_recurs and exists (
    select from pgrab.chain h where h.chain = c.chain and h.root is not null) then
    perform pgrab_internal.edge_refuse_root(p.id, c.id);
  elsif v_recurs and (c.chain is null or c.chain is distinct from p.chain) and (
    c.status not in ('waiting', 'scheduled', 'claimed') or c.attempt > 0
    or exists (select from pgrab.chain o where o.chain = c.chain and pgrab_internal.chain_begun(o.chain_id))
    or exists (
      select from pgrab.task x
      where x.chain = c.chain
        and (x.status not in ('waiting', 'scheduled', 'claimed') or x.attempt > 0))) then
    perform pgrab_internal.chain_refuse(p.id, c.id, 'its chain has begun, and runs once',
      'What becomes part of a recurring chain runs with it from the start.');
  end if;
end $$;
comment on function pgrab_internal.edge_check(pgrab_internal.task, pgrab_internal.task) is
  'Refuses an edge between two tasks that cannot be in one chain.';

create or replace function pgrab_internal.edge_refuse_root(p_parent bigint, p_child bigint) returns void
language sql as $$
  select pgrab_internal.chain_refuse(p_parent, p_child, 'the chain has a schedule and would have two roots',
    'Everything in a recurring chain is below the task that has the schedule.')
$$;
comment on function pgrab_internal.edge_refuse_root(bigint, bigint) is
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
      'it would wait for itself: it hangs below that task already',
      'A chain has no cycles; remove the other edge first.');
  elsif pgrab_internal.chain_second_root(p_chain) is not null then
    perform pgrab_internal.edge_refuse_root(p_parent, p_child);
  end if;
end $$;
comment on function pgrab_internal.edge_shape_check(bigint, bigint, bigint) is
  'Refuses an edge that would close a circle, or give a recurring chain a second root.';

-- The chains are locked before the graph is walked, so that what another transaction adds is seen, or waits.
create or replace function pgrab_internal.edge_chain(p pgrab_internal.task, c pgrab_internal.task)
returns bigint
language plpgsql as $$
declare
  v_to constant bigint := coalesce(p.chain, pgrab_internal.chain_new(p));
  v_from constant bigint := coalesce(c.chain, pgrab_internal.chain_new(c));
begin
  perform from pgrab.chain h where h.chain in (v_to, v_from) order by h.chain for update;
  if v_to <> v_from and pgrab_internal.chain_under_way(v_to) then
    -- Whatever hangs below the child comes with it, and like it takes no part in the run under way.
    update pgrab.task t
    set status = 'waiting', due_at = null, needs = null, met = 0, version = t.version + 1, node_id = null,
      incarnation = null, claimed_at = null
    where t.chain = v_from;
  end if;
  return pgrab_internal.chain_merge(v_to, v_from);
end $$;
comment on function pgrab_internal.edge_chain(pgrab_internal.task, pgrab_internal.task) is
  'Makes the chains of two tasks one, which it returns.';

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
  perform pgrab_internal.edge_check(p, c);
  v_chain := pgrab_internal.edge_chain(p, c);
  perform pgrab_internal.edge_shape_check(v_chain, p_parent, p_child);
  if pgrab_internal.chain_under_way(v_chain) then
    insert into pgrab.edge_change values (v_chain, p_parent, p_child, p_run_if, true);
    return;
  elsif p.status = 'parked' then
    perform pgrab_internal.chain_refuse(p_parent, p_child, 'it is parked',
      format('select pgrab.retry(%s) first.', p_parent));
  end if;
  select * into c from pgrab.task t where t.id = p_child;
  if c.status not in ('waiting', 'scheduled', 'claimed') or c.attempt > 0 then
    perform pgrab_internal.chain_refuse(p_parent, p_child,
      format('the child is %s', case when c.attempt > 0 then 'being tried' else c.status end),
      'A task gets its parents before it starts.');
  end if;
  update pgrab.task t
  set status = 'waiting', due_at = null, needs = coalesce(t.needs, 0) + 1, version = t.version + 1,
    node_id = null, incarnation = null, claimed_at = null
  where t.id = p_child;
end $$;
comment on function pgrab_internal.edge_add(bigint, bigint, text) is
  'A new edge between two tasks that are there: checks it and makes the child wait.';

-- In a chain that runs once the child waits for one less; in a recurring one that is under way, from the next
-- fire on.  Between two runs a child that is free starts for a fire of its own: it has had the last one's.
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
  select * into h from pgrab.chain x where x.chain = c.chain for update;
  if not found then
    return;
  end if;
  delete from pgrab.edge_change g where g.parent_id = p_parent and g.child_id = p_child and g.added;
  if found or not pgrab_internal.takes_part(c.status, c.needs) then
    null; -- it has never counted (and the chain may have lost its schedule since)
  elsif pgrab_internal.chain_under_way(c.chain) then
    insert into pgrab.edge_change values (c.chain, p_parent, p_child, p_run_if, false);
  elsif c.status = 'waiting' and p.id is not null and pgrab_internal.link_result(p.status) is null then
    update pgrab.task t set needs = t.needs - 1, version = t.version + 1
    where t.id = p_child returning * into c;
    if c.needs = 0 then
      perform pgrab_internal.link_release(array[p_child],
        array[case when h.root is null then c.fire_at else greatest(clock_timestamp(), c.run_at) end]);
    end if;
  end if;
  perform pgrab_internal.chain_split(p_child);
  -- A parent that came while its chain runs may have hung together with it by this edge alone.
  if p.id is not null and not pgrab_internal.takes_part(p.status, p.needs) then
    perform pgrab_internal.chain_split(p_parent);
  end if;
end $$;
comment on function pgrab_internal.edge_drop(bigint, bigint, text) is
  'What becomes of a child that has lost a parent.';

create or replace function pgrab_internal.edge_dropped_check(p_parent bigint, p_child bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  if not exists (select from pgrab_internal.parents_of(p_child))
    and pgrab_internal.chain_second_root((
      select t.chain from pgrab.task t where t.id = p_child)) = p_child then
    raise exception using errcode = '22023', schema = 'pgrab', table = 'task', column = 'parent_id',
      message = format('task %s cannot lose its last parent, %s: the chain has a schedule and would have two '
        'roots', p_child, p_parent),
      hint = 'It hangs together with the root through what is below it. Give it another parent first, or '
        'take it from above those first.';
  end if;
end $$;
comment on function pgrab_internal.edge_dropped_check(bigint, bigint) is
  'Refuses to take the last edge above a link that would be a second root then.';

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
comment on function pgrab_internal.edge_changed() is 'Keeps chains whole when pgrab.edge changes.';
create trigger edge_10_changed after insert or update on pgrab.edge
  for each row execute function pgrab_internal.edge_changed();

create or replace function pgrab_internal.edge_truncate() returns trigger
language plpgsql as $$
begin
  raise exception using errcode = '0A000',
    message = 'pgrab.edge cannot be truncated: the tasks below would wait for ever',
    hint = 'delete from pgrab.edge lets them go.';
end $$;
comment on function pgrab_internal.edge_truncate() is 'TRUNCATE does not tell triggers which rows go.';
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
comment on function pgrab_internal.task_relink() is 'Another parent_id or run_if.';
create trigger task_30_relink after update of parent_id, run_if on pgrab.task for each row
  when (old.parent_id is distinct from new.parent_id
    or old.run_if <> new.run_if and new.parent_id is not null)
  execute function pgrab_internal.task_relink();

-- The run under way goes by the graph it began with: who is waited for there cannot go before its end,
-- whatever the graph says now.
create or replace function pgrab_internal.refuse_awaited(p_ids bigint[]) returns void
language plpgsql as $$
declare
  g record;
begin
  select x.* into g from pgrab.edge_change x join pgrab.task t on t.id = x.child_id
  where x.parent_id = any (p_ids) and not x.added and t.status = 'waiting' and t.needs is not null
    and t.id <> all (p_ids)
  order by x.parent_id limit 1;
  if found then
    raise exception using errcode = '23503', schema = 'pgrab', table = 'task',
      message = format('task %s cannot be deleted: task %s waits for it in the current run',
        g.parent_id, g.child_id),
      hint = format('The graph was changed since that run began; delete it when the run has ended. '
        'select pgrab.cancel(%s) ends the run.', (select c.root from pgrab.chain c where c.chain = g.chain));
  end if;
end $$;
comment on function pgrab_internal.refuse_awaited(bigint[]) is
  'Refuses to delete what has not ended and others wait for in this run.';

create or replace function pgrab_internal.link_deleted(l pgrab_internal.task) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
begin
  select * into h from pgrab.chain c where c.chain = l.chain;
  if exists (
    select from pgrab_internal.children_of(l.id) x join pgrab.task t on t.id = x.child_id
    where t.status = 'waiting' or h.root is not null or l.schedule is not null) then
    raise exception using errcode = '23503', schema = 'pgrab', table = 'task',
      message = format('task %s cannot be deleted: other tasks wait for it', l.id),
      hint = format('select pgrab.delete_chain(%s) deletes it with everything that hangs below it; '
        'select pgrab.cancel(%s) stops it.', l.id, l.id);
  end if;
  delete from pgrab.edge e where e.child_id = l.id or e.parent_id = l.id;
  if h.root is null then
    perform pgrab_internal.chains_end(array[h.chain]);
    return;
  end if;
  if l.needs is not null then
    perform pgrab_internal.refuse_awaited(array[l.id]);
  end if;
  update pgrab.chain c
  set pending = case when h.root <> l.id then c.pending - case when l.needs is not null then 1 else 0 end end,
    root = nullif(c.root, l.id)
  where c.chain = h.chain;
  perform pgrab_internal.chain_end(h.chain);
end $$;
comment on function pgrab_internal.link_deleted(pgrab_internal.task) is
  'Refuses to delete a task that others wait for; a link that is gone is missed by its chain.';

-- The node that has the run reads the wish with its heartbeat, and the place under a limit stays taken until
-- the run is over: its finish takes the wish away (upkeep does when the node has died).
create or replace function pgrab_internal.run_deleted(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  insert into pgrab.run (task_id, version, incarnation, node_id, chain_id, fire_at, claimed_at, started_at,
    finished_at, created_at, attempt, outcome, ended, kind, node, owner, key, name, error, definition)
  values (t.id, t.version, t.incarnation, t.node_id,
    (select c.chain_id from pgrab.chain c where c.chain = t.chain), t.fire_at, t.claimed_at, t.started_at,
    clock_timestamp(), t.created_at, t.attempt, 'cancelled', 'cancelled', t.kind,
    (select n.name from pgrab.node n where n.id = t.node_id), t.owner, t.key, t.name,
    'deleted by ' || pgrab_internal.caller() || ' while it ran', pgrab_internal.definition(t));
  insert into pgrab.cancel_request as c (task_id, version, incarnation, asked_by)
  values (t.id, t.version, t.incarnation, pgrab_internal.caller())
  on conflict (task_id) do update set version = excluded.version, incarnation = excluded.incarnation,
    asked_at = excluded.asked_at, asked_by = excluded.asked_by;
  perform pg_notify('pgrab', 'wish');
end $$;
comment on function pgrab_internal.run_deleted(pgrab_internal.task) is
  'A running task has been deleted: its run is stopped, and the history says that it was cancelled.';

create or replace function pgrab_internal.task_deleted() returns trigger
language plpgsql as $$
declare
  o constant pgrab_internal.task := old;
begin
  if pgrab_internal.call_verb() is null then
    perform pgrab_internal.event('delete', pgrab_internal.caller(), o);
  end if;
  if o.status = 'running' then
    perform pgrab_internal.run_deleted(o);
  end if;
  perform pgrab_internal.definition_deleted(o);
  if o.chain is not null then
    perform pgrab_internal.link_deleted(o);
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_deleted() is 'A task that a person deletes.';

-- What leaves with its end does not come here: the setting says so, whose hash is that of the key
-- (link_ends()).  Of a plain task it is enough that the setting is not empty; nobody but who deletes it could
-- be misled.  A parent does not leave its children behind; that it and they may go in one statement is
-- why the trigger looks afterwards.  (And a BEFORE trigger would make every finish of every task lock its row
-- first.)
do $$
declare
  v_person text;
  v_task text;
begin
  insert into pgrab_internal.key (name, value)
  values ('link_ends', gen_random_uuid()::text || gen_random_uuid()) on conflict do nothing;
  select format($sql$md5(current_setting('pgrab.link_ends', true)) is distinct from %L$sql$, md5(s.value))
  into v_person from pgrab_internal.key s where s.name = 'link_ends';
  v_task := $sql$ after delete on pgrab.task for each row
    when (case when old.chain is null and old.schedule is null
      then coalesce(current_setting('pgrab.link_ends', true), '') = ''
      else $sql$ || v_person || ' end';
  execute 'create trigger task_09_deleter' || v_task
    || ' and not pgrab_internal.in_call()) execute function pgrab.note_caller()';
  execute 'create trigger task_20_deleted' || v_task || ') execute function pgrab_internal.task_deleted()';
  execute 'create trigger edge_20_dropped after delete on pgrab.edge for each row '
    'when (' || v_person || ') execute function pgrab_internal.edge_changed()';
end $$;

-- Everything of a chain that has not ended is cancelled; returns what is left running, for its nodes to stop.
create or replace function pgrab_internal.chain_cancel(p_chain bigint, p_why text)
returns setof pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  v_ids bigint[];
begin
  perform from pgrab.task t where t.chain = p_chain order by t.id for update;
  select * into h from pgrab.chain c where c.chain = p_chain for update;
  return query select t.* from pgrab.task t where t.chain = p_chain and t.status = 'running' order by t.id;
  v_ids := array(
    select t.id from pgrab.task t
    where t.chain = p_chain and t.status in ('waiting', 'scheduled', 'claimed', 'parked')
      and (t.needs is not null or t.status = 'parked')
    order by t.id);
  insert into pgrab.run (task_id, attempt, version, chain_id, fire_at, finished_at, created_at, outcome,
    ended, kind, owner, key, name, error, definition)
  select t.id, t.attempt, t.version, h.chain_id,
    coalesce(case when t.status = 'waiting' then (select r.fire_at from pgrab.task r where r.id = h.root) end,
      t.fire_at),
    clock_timestamp(), t.created_at, 'cancelled', case when h.root is null then 'cancelled' end, t.kind,
    t.owner, t.key, t.name, p_why,
    case when h.root is null then pgrab_internal.definition(row(t.*)::pgrab_internal.task) end
  from pgrab.task t where t.id = any (v_ids);
  if h.root is null then
    perform pgrab_internal.links_leave(v_ids);
  else
    update pgrab.task t
    set status = 'cancelled', due_at = null, needs = null, version = t.version + 1, node_id = null,
      incarnation = null, claimed_at = null
    where t.id = any (v_ids);
    perform pgrab_internal.chain_recount(array[p_chain]);
  end if;
  perform pgrab_internal.chain_end(p_chain);
end $$;
comment on function pgrab_internal.chain_cancel(bigint, text) is
  'Cancels what a chain has not ended yet, and returns its running links.';

create or replace function pgrab_internal.chain_of_ended(p_id bigint)
returns table (chain bigint, root boolean)
language sql stable
begin atomic
  select c.chain, not coalesce(r.definition ?| array['parent_id', 'parents'], false)
  from pgrab.run r join pgrab.chain c on c.chain_id = r.chain_id
  where r.task_id = p_id and r.ended is not null and not exists (select from pgrab.task t where t.id = p_id)
    and exists (
      select from pgrab.task t where t.chain = c.chain and t.status not in ('done', 'cancelled', 'skipped'))
  limit 1;
end;
comment on function pgrab_internal.chain_of_ended(bigint) is
  'The chain that a link has left and that goes on without it; was it a root?';

-- p_id and what was skipped because of it, unless something else keeps that from running.
create or replace function pgrab_internal.links_to_reopen(p_id bigint) returns bigint[]
language plpgsql as $$
declare
  v_open bigint[] := array[p_id];
  v_more bigint[] := v_open;
begin
  loop
    select array_agg(distinct t.id) into v_more
    from unnest(v_more) o(id) cross join lateral pgrab_internal.children_of(o.id) x
      join pgrab.task t on t.id = any (array[x.child_id])
    where t.status = 'skipped' and t.id <> all (v_open) and not exists (
      select from pgrab_internal.parents_of(t.id) a
        cross join lateral (
          select case when a.parent_id <> all (v_open)
            then pgrab_internal.parent_result(a.parent_id) end as result
          offset 0) p
      where not pgrab_internal.run_if_met(a.run_if, p.result));
    exit when v_more is null;
    v_open := v_open || v_more;
  end loop;
  return v_open;
end $$;
comment on function pgrab_internal.links_to_reopen(bigint) is
  'A parked link and what was skipped because of it.';

create or replace function pgrab_internal.link_reopen(p_id bigint) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_chain constant bigint := (select t.chain from pgrab.task t where t.id = p_id);
  v_open bigint[];
begin
  if v_chain is null then
    return;
  end if;
  perform from pgrab.task t where t.chain = v_chain order by t.id for update;
  perform from pgrab.chain c where c.chain = v_chain for update;
  v_open := pgrab_internal.links_to_reopen(p_id);
  update pgrab.task t
  set status = case when t.id = p_id then t.status else 'waiting' end, attempt = 0, version = t.version + 1,
    needs = case when t.id = p_id then 0 else (
      select count(*) from pgrab_internal.parents_in_run(t.id) a
      where a.parent_id = any (v_open) or pgrab_internal.parent_result(a.parent_id) is null) end,
    met = (
      select count(*) from pgrab_internal.parents_in_run(t.id) a
      where a.parent_id <> all (v_open) and pgrab_internal.parent_result(a.parent_id) <> 'skipped')
  where t.id = any (v_open)
    -- had counted the end that is taken back
    or t.status = 'waiting' and t.needs is not null and t.id = any (array(
      select x.child_id from unnest(v_open) o(id) cross join lateral pgrab_internal.children_of(o.id) x));
  perform pgrab_internal.chain_recount(array[v_chain]);
  update pgrab.run r set ended = null, definition = null
  where r.task_id = any (v_open) and r.ended = 'skipped';
end $$;
comment on function pgrab_internal.link_reopen(bigint) is
  'A parked link is tried again: it takes part again, and so does what was skipped because of it.';

create or replace function pgrab_internal.delete_chain(p_id bigint, p_by text)
returns setof pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  v_chain bigint := (select e.chain from pgrab_internal.chain_of_ended(p_id) e);
  v_ids bigint[];
begin
  if v_chain is null or not pgrab_internal.may_see_ended(p_id, p_by) then
    select t.chain into v_chain from pgrab_internal.control_lock(array[p_id], 'delete_chain', p_by) t;
  end if;
  select * into h from pgrab.chain c where c.chain = v_chain;
  v_ids := pgrab_internal.chain_below(p_id, h.chain_id);
  v_ids := array(select t.id from pgrab.task t where t.id = any (v_ids) order by t.id for update);
  perform pgrab_internal.refuse_awaited(array(
    select t.id from pgrab.task t where t.id = any (v_ids) and t.needs is not null));
  perform pgrab_internal.run_deleted(row(t.*)::pgrab_internal.task) from pgrab.task t
  where t.id = any (v_ids) and t.status = 'running';
  return query select t.* from pgrab.task t where t.id = any (v_ids) order by t.id;
  perform pgrab_internal.links_leave(v_ids);
  if h.root = any (v_ids) then
    perform pgrab_internal.chain_once(h.chain);
  elsif h.chain is not null then
    perform pgrab_internal.chain_recount(array[h.chain]);
    perform pgrab_internal.chain_end(h.chain);
  end if;
end $$;
comment on function pgrab_internal.delete_chain(bigint, text) is 'pgrab.delete_chain() for a caller.';
