-- Changes to chains by users: new links, schedules, deletes, retries.  See 28_chain_graph.sql; for edges,
-- 29_chain_edge.sql.

-- For a row that is being inserted with a parent_id.  Other tables are changed later, in task_inserted(),
-- because the row of an upsert that only updates never gets that far.
create or replace function pgrab_internal.chain_join(t pgrab_internal.task) returns pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  p constant pgrab_internal.task := pgrab_internal.chain_parent(t.parent_id, t.id, t.owner);
begin
  t.chain := coalesce(p.chain, pgrab_internal.chain_new(p));
  perform from pgrab.chain c where c.chain = t.chain for key share; -- against chain_lock()
  t.status := 'waiting';
  t.due_at := null;
  t.fire_at := p.fire_at;
  t.met := 0;
  t.traceparent := coalesce(t.traceparent, p.traceparent);
  if not pgrab_internal.chain_under_way(t.chain) then
    if p.status = 'parked' then
      perform pgrab_internal.chain_refuse(p.id, t.id, 'it is parked',
        format('select pgrab.retry(%s) first, or give the new task another parent.', p.id));
    end if;
    t.needs := 1;
  end if;
  return t;
end $$;
comment on function pgrab_internal.chain_join is
  'Makes a new task a link of its parent''s chain; if the chain is running, from its next fire on.';

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
      'Its chain has other roots; everything in a recurring chain must be below the task that has the '
      'schedule.');
  elsif t.status not in ('waiting', 'scheduled', 'claimed', 'parked')
    or t.status <> 'parked' and pgrab_internal.has_begun(t.attempt, t.steps)
    or pgrab_internal.chain_begun(t.chain)
    or exists (
      select from pgrab.task x where x.chain = t.chain and x.id <> t.id and x.status <> 'waiting') then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'Its chain has begun and runs once. Insert a new chain, with the schedule on its root.');
  elsif exists (select from pgrab.task x where x.chain = t.chain and x.kind = 'batch') then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'Its chain has a batch, which runs once. Let a link of the chain insert a batch each time.');
  end if;
end $$;
comment on function pgrab_internal.chain_schedule_check is
  'Refuses the schedule of a link that is not the only root of a chain that has not begun.';

create or replace function pgrab_internal.task_reschedule() returns trigger
language plpgsql as $$
begin
  if new.schedule is null then
    perform pgrab_internal.chain_once(new.chain);
    return null;
  end if;
  perform pgrab_internal.chain_lock(array[new.chain]);
  perform pgrab_internal.chain_schedule_check(row(new.*)::pgrab_internal.task);
  update pgrab.chain c set root = new.id, stuck = false where c.chain = new.chain;
  perform pgrab_internal.chain_recount(array[new.chain]);
  return null;
end $$;
comment on function pgrab_internal.task_reschedule is
  'Makes a chain recur, or stop recurring, when its root gets or loses a schedule.';
create trigger task_40_reschedule after update of schedule on pgrab.task for each row
  when (new.chain is not null and (old.schedule is null) <> (new.schedule is null))
  execute function pgrab_internal.task_reschedule();

-- The current run follows the graph it began with: a link that others wait for there cannot be deleted before
-- it has ended, whatever the graph says now.
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
      hint = format('The graph has changed since that run began; delete the task when the run has ended. '
        'select pgrab.cancel(%s) ends the run.', (select c.root from pgrab.chain c where c.chain = g.chain));
  end if;
end $$;
comment on function pgrab_internal.refuse_awaited is
  'Refuses to delete links that have not ended and that others wait for in this run.';

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
      hint = format('select pgrab.delete_chain(%s) deletes it with everything below it; '
        'select pgrab.cancel(%s) stops it.', l.id, l.id);
  end if;
  -- those above a child that goes, too, are for its own history
  delete from pgrab.edge e where e.child_id = l.id
    or e.parent_id = l.id and exists (select from pgrab.task t where t.id = e.child_id);
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
comment on function pgrab_internal.link_deleted is
  'Updates the chain of a deleted link; refuses to delete a link that others wait for.';

create or replace function pgrab_internal.deleted_note(t pgrab_internal.task) returns pgrab_internal.note
language plpgsql stable as $$
declare
  r pgrab_internal.note := pgrab_internal.note('cancelled', 'deleted by ' || pgrab_internal.caller()
    || case when pgrab_internal.under_way(t.status, t.incarnation) then ' while it ran' else '' end);
begin
  if t.status = 'running' then
    r.node := (select n.name from pgrab.node n where n.id = t.node_id);
  end if;
  return r;
end $$;
comment on function pgrab_internal.deleted_note is
  'What the history is to say of a task that a user deletes.';

create or replace function pgrab_internal.tasks_leave(p_tasks pgrab_internal.task[]) returns void
language plpgsql as $$
begin
  perform pgrab_internal.wish_stop(t) from unnest(p_tasks) t where t.status = 'running';
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(
    t.id, t.version, 'delete', p_run => pgrab_internal.deleted_note(t)))) from unnest(p_tasks) t;
end $$;
comment on function pgrab_internal.tasks_leave is
  'Deletes tasks for a user, who has locked them; has the runs of those that are running stopped.';

create or replace function pgrab_internal.note_deleted(t pgrab_internal.task) returns void
language sql as $$
  select pgrab_internal.note_runs(array[pgrab_internal.noted(t, pgrab_internal.deleted_note(t),
    (select c.chain_id from pgrab.chain c where c.chain = t.chain), 'cancelled')])
$$;
comment on function pgrab_internal.note_deleted is
  'Writes the history of a task that a DELETE takes while it runs; it keeps the definition.';

create or replace function pgrab_internal.task_deleted() returns trigger
language plpgsql as $$
declare
  o constant pgrab_internal.task := old;
begin
  if current_setting('pgrab.link_ends', true) <> '' then
    raise exception 'a task cannot be deleted while pgrab.link_ends is set: the setting is pgrab''s own'
      using errcode = 'object_not_in_prerequisite_state', hint = 'Leave it alone: reset pgrab.link_ends.';
  end if;
  if pgrab_internal.call_verb() is null then
    perform pgrab_internal.event('delete', pgrab_internal.caller(), o);
  end if;
  if pgrab_internal.awaits(o.status, o.incarnation) then
    perform pgrab_internal.note_deleted(o);
  elsif o.status = 'running' then
    -- Its node reads the request with its heartbeat, and the place under a limit stays taken until the run is
    -- over.  The finish deletes the request; if the node has died, upkeep does.
    perform pgrab_internal.note_deleted(o), pgrab_internal.wish_stop(o);
  end if;
  if o.steps is not null then
    delete from pgrab.step s where s.task_id = o.id;
  end if;
  perform pgrab_internal.waits_end(array[o.id], array[o.id]);
  perform pgrab_internal.batch_deleted(o);
  insert into pgrab.batch_count (batch, gone)
  select o.batch, 1 where exists (select from pgrab.batch b where b.task_id = o.batch);
  perform pgrab_internal.definition_deleted(o);
  if o.chain is not null then
    perform pgrab_internal.link_deleted(o);
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_deleted is 'Trigger: a user deletes a task.';

-- The triggers do not fire for tasks that leave with their end: the setting says so, and its hash must match
-- the key's (link_ends()), or a user could delete without a trace.  A parent must not leave children behind,
-- but both may be deleted in one statement; so the check comes afterwards.  (And a BEFORE trigger would make
-- every finish lock the row of its task first.)
--
-- by_person() is declared immutable, although it reads a setting, so that a statement asks it once and not
-- for each row: conditions of triggers are planned, with calls of immutable functions carried out, when the
-- statement comes to its first row, and are planned anew by the next statement.  Nothing else may call it.
-- Within a statement the answer cannot become another one: what sets the key also takes it away again, and
-- any other setting is a person's.  (CASE, and not AND, so that in_call() is not even planned for a finish.)
do $$
begin
  insert into pgrab_internal.key (name, value)
  values ('link_ends', gen_random_uuid()::text || gen_random_uuid()) on conflict do nothing;
  execute (
    select format($sql$create or replace function pgrab_internal.by_person() returns boolean
      language plpgsql immutable as $f$
      begin
        return md5(current_setting('pgrab.link_ends', true)) is distinct from %L;
      end $f$ $sql$, md5(k.value))
    from pgrab_internal.key k where k.name = 'link_ends');
end $$;
comment on function pgrab_internal.by_person is
  'For the conditions of triggers only: does a user delete these rows, and not the system (link_ends())?';

create trigger task_09_deleter after delete on pgrab.task for each row
  when (case when pgrab_internal.by_person() then not pgrab_internal.in_call() end)
  execute function pgrab_tool.note_caller();
create trigger task_20_deleted after delete on pgrab.task for each row
  when (pgrab_internal.by_person()) execute function pgrab_internal.task_deleted();
create trigger edge_20_dropped after delete on pgrab.edge for each row
  when (pgrab_internal.by_person()) execute function pgrab_internal.edge_changed();

create or replace function pgrab_internal.chain_cancel(p_chain bigint, p_why text)
returns setof pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  c_fire constant timestamptz := (
    select r.fire_at from pgrab.chain c join pgrab.task r on r.id = c.root where c.chain = p_chain);
begin
  perform from pgrab.task t where t.chain = p_chain order by t.id for update;
  select * into h from pgrab.chain c where c.chain = p_chain for update;
  delete from pgrab.skipping s where s.chain = p_chain;
  return query select t.* from pgrab.task t where t.chain = p_chain and t.status = 'running' order by t.id;
  perform pgrab_internal.wish_stop(row(t.*)::pgrab_internal.task)
  from pgrab.task t where t.chain = p_chain and t.status = 'running';
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version, 'abandon',
    p_run => pgrab_internal.note('cancelled', p_why,
      case when t.status = 'waiting' and t.incarnation is null then c_fire end)) order by t.id))
  from pgrab.task t
  where t.chain = p_chain and t.status in ('waiting', 'scheduled', 'claimed', 'parked')
    and (t.needs is not null or t.status = 'parked');
  perform pgrab_internal.chain_recount(array[p_chain]) where h.root is not null;
  perform pgrab_internal.chain_end(p_chain);
end $$;
comment on function pgrab_internal.chain_cancel is
  'Cancels what a chain has not ended yet, has its running links stopped, and returns those.';

create or replace function pgrab_internal.chain_of_ended(p_id bigint)
returns table (chain bigint, root boolean)
language plpgsql stable as $$
begin
  if exists (select from pgrab.task t where t.id = p_id) then
    return; -- the history, all days of it, is not even looked at
  end if;
  return query select c.chain, not coalesce(r.definition ?| array['parent_id', 'parents'], false)
  from pgrab.last_run(p_id, 'ended') r join pgrab.chain c on c.chain_id = r.chain_id
  where exists (
    select from pgrab.task t where t.chain = c.chain and not pgrab_internal.is_over(t.status));
end $$;
comment on function pgrab_internal.chain_of_ended is
  'The chain that a link has left and that goes on without it, and whether the link was a root.';

-- In the graph that the run began with.  Leaves out a link that another parent keeps from running.
create or replace function pgrab_internal.links_to_reopen(p_ids bigint[]) returns bigint[]
language plpgsql as $$
declare
  v_open bigint[] := p_ids;
  v_more bigint[] := v_open;
begin
  loop
    select array_agg(distinct t.id) into v_more
    from unnest(v_more) o(id) cross join lateral pgrab_internal.children_in_run(o.id) x
      join pgrab.task t on t.id = any (array[x.child_id])
    where t.status = 'skipped' and t.id <> all (v_open) and not exists (
      select from pgrab_internal.parents_in_run(t.id) a
        cross join lateral (
          select case when a.parent_id <> all (v_open)
            then pgrab_internal.parent_status(a.parent_id) end as status
          offset 0) p
      where not pgrab_internal.run_if_met(a.run_if, p.status));
    exit when v_more is null;
    v_open := v_open || v_more;
  end loop;
  return v_open;
end $$;
comment on function pgrab_internal.links_to_reopen is
  'Parked links, and what was skipped because of them.';

-- p_ids: all of this chain.
create or replace function pgrab_internal.links_reopen(p_chain bigint, p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_open bigint[];
begin
  perform from pgrab.task t where t.chain = p_chain order by t.id for update;
  perform from pgrab.chain c where c.chain = p_chain for update;
  perform pgrab_internal.chain_settled(array[p_chain]);
  v_open := pgrab_internal.links_to_reopen(p_ids);
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version,
      case when t.status = 'scheduled' then 'edit' else 'reopen' end, p_attempt => 0,
      p_needs => case when t.id = any (p_ids) then 0 else a.needs end, p_met => a.met)))
  from pgrab.task t cross join lateral (
      select count(*) filter (where a.parent_id = any (v_open) or p.status is null)::integer as needs,
        count(*) filter (where a.parent_id <> all (v_open) and p.status <> 'skipped')::integer as met
      from pgrab_internal.parents_in_run(t.id) a
        cross join lateral (select pgrab_internal.parent_status(a.parent_id) as status) p) a
  where t.id = any (v_open)
    -- waiting links that had counted the end which is undone
    or t.status = 'waiting' and t.incarnation is null and t.needs is not null
      and not pgrab_internal.has_begun(t.attempt, t.steps) and t.id = any (array(
      select x.child_id
      from unnest(v_open) o(id) cross join lateral pgrab_internal.children_in_run(o.id) x));
  perform pgrab_internal.chain_recount(array[p_chain]);
  perform pgrab_internal.links_ended(p_chain, pgrab_internal.chain_after(p_chain), v_open);
end $$;
comment on function pgrab_internal.links_reopen is
  'Brings parked links, and those that were skipped because of them, back into the run.';

create or replace function pgrab_internal.delete_chain(p_id bigint, p_by text)
returns setof pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  h pgrab_internal.chain;
  v_chain bigint := (select e.chain from pgrab_internal.chain_of_ended(p_id) e);
  v_ids bigint[];
  v_tasks pgrab_internal.task[];
begin
  if v_chain is null or not pgrab_internal.may_see_ended(p_id, p_by) then
    select t.chain into v_chain from pgrab_internal.control_lock(array[p_id], 'delete_chain', p_by) t;
  end if;
  select * into h from pgrab.chain c where c.chain = v_chain;
  v_ids := pgrab_internal.chain_below(p_id, h.chain_id);
  v_tasks := array(
    select row(t.*)::pgrab_internal.task from pgrab.task t where t.id = any (v_ids) order by t.id for update);
  perform pgrab_internal.refuse_awaited(array(select t.id from unnest(v_tasks) t where t.needs is not null));
  perform pgrab_internal.tasks_leave(v_tasks);
  return query select * from unnest(v_tasks);
  if h.root = any (v_ids) then
    perform pgrab_internal.chain_once(h.chain);
  elsif h.chain is not null then
    perform pgrab_internal.chain_recount(array[h.chain]);
    perform pgrab_internal.chain_end(h.chain);
  end if;
end $$;
comment on function pgrab_internal.delete_chain is 'pgrab.delete_chain() for a caller.';
