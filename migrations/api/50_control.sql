-- Manual control of tasks.  Each function takes ids, locks their rows, works inside the caller's transaction,
-- and returns the rows it changed.  For an unknown id or an unsuitable state it raises an error with a hint,
-- and nothing has happened.  p_by: the caller, whose own tasks these must be, unless it is an operator.
--
-- The same for nodes and the cluster: 51_cluster.sql.  The public functions, and how they get here:
-- 52_call.sql.

-- Another owner's task counts as unknown, unless the caller reads those of all.  p_named: only those were
-- named; others (members of a batch) may have ended in the meantime.
create or replace function pgrab_internal.control_lock(
  p_ids bigint[], p_what text, p_by text, p_named bigint[] default null)
returns setof pgrab_internal.task
language plpgsql as $$
declare
  c_all constant boolean := pgrab_internal.may_operate(p_by);
  c_reads constant boolean := c_all or pgrab_internal.is_member(p_by, 'pgrab_read');
  v_missing bigint;
  v_ended text;
begin
  if p_ids is null or array_position(p_ids, null) is not null then
    raise exception using errcode = '22004', message = format('cannot %s: an id is null', p_what),
      hint = 'Give the id, the key or the name of a task, or an array of ids.';
  end if;
  return query select t.* from pgrab.task t
    where t.id = any (p_ids) and (c_all or t.owner = p_by) order by t.id for update;
  select i into v_missing from unnest(p_ids) i
  where (p_named is null or i = any (p_named))
    and not exists (select from pgrab.task t where t.id = i and (c_all or t.owner = p_by)) limit 1;
  if found then
    if c_reads and exists (select from pgrab.task t where t.id = v_missing) then
      raise exception using errcode = '42501', message = format('you may not %s task %s', p_what, v_missing),
        hint = 'Its owner may, and operators; its signals may be sent by members of its signal_by, too.';
    end if;
    select r.ended into v_ended from pgrab.last_run(v_missing, 'ended') r where c_reads or r.owner = p_by;
    if v_ended is null then
      perform pgrab_tool.no_task(v_missing);
    end if;
    raise exception using errcode = 'P0002', message = format('task %s has ended: %s', v_missing, v_ended),
      hint = format('Insert a new task to run it again; `pgrab show %s` shows its definition.', v_missing);
  end if;
end $$;
comment on function pgrab_internal.control_lock is
  'Locks tasks in id order; refuses ids that do not exist for the caller.';

create or replace function pgrab_internal.control_refuse(t pgrab_internal.task, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '55000',
    message = format('task %s is %s', t.id || coalesce(' (' || coalesce(t.name, t.key) || ')', ''),
      case when t.paused and t.status <> 'running' then 'paused' else t.status end),
    hint = p_hint, schema = 'pgrab', table = 'task';
end $$;
comment on function pgrab_internal.control_refuse is
  'Refuses a call because of the state that the task is in, and says what would work.';

create or replace function pgrab_internal.signal_hint(t pgrab_internal.task) returns text
language sql stable
return format('It waits for a signal: select pgrab.signal(%s, %L) sends it.', t.id,
  (select w.name from pgrab.wait w where w.task_id = t.id));
comment on function pgrab_internal.signal_hint is 'What works for a task that waits.';

-- By moves, so that the trigger of edits, which checks all of a definition, is not asked: whether a task is
-- paused cannot break anything else.
create or replace function pgrab_internal.pause(p_ids bigint[], p_verb text, p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_ids bigint[];
  v_moves pgrab_internal.move[];
begin
  select array_agg(l.id), array_agg(pgrab_internal.move_to(l.id, l.version, p_verb)) into v_ids, v_moves
  from pgrab_internal.control_lock(
    pgrab_internal.batch_ids(p_ids, false, p_by), p_verb, p_by, p_ids) l
  where l.paused = (p_verb = 'resume');
  perform pgrab_internal.move(v_moves);
  return query select t.* from pgrab.task t where t.id = any (v_ids) order by t.id;
end $$;
comment on function pgrab_internal.pause is 'pgrab.pause() and pgrab.resume() for a caller.';

create or replace function pgrab_internal.run_now_hint(t pgrab_internal.task) returns text
language sql stable
return case when pgrab_internal.under_way(t.status, t.incarnation)
    then 'A task never overlaps itself; wait until this run has ended.'
  when t.status = 'parked' then 'pgrab.retry(id) tries it again.'
  when t.kind = 'batch' then 'A batch runs nothing; it ends when it is sealed and its members have ended.'
  when pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation)
    then pgrab_internal.signal_hint(t)
  when t.status not in ('scheduled', 'claimed') and t.schedule is not null
    then 'Its chain is running, and a chain never overlaps itself. pgrab.cancel(id) ends this run.'
  when t.status not in ('scheduled', 'claimed')
    then 'It is a link of a chain, which starts it; pgrab.explain(id) says what it waits for.'
  when t.paused then 'pgrab.resume(id) first.' end;
comment on function pgrab_internal.run_now_hint is
  'What works instead for a task that cannot run now. Null: it can.';

create or replace function pgrab_internal.retry_hint(t pgrab_internal.task) returns text
language sql stable
return case when t.status = 'parked' then null
  when pgrab_internal.under_way(t.status, t.incarnation) then 'An attempt is in progress.'
  when t.kind = 'batch' then 'None of its members is parked.'
  when pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation)
    then pgrab_internal.signal_hint(t)
  when t.status = 'skipped' then 'It was skipped because a parent did not end as it asks; '
    'pgrab.explain(id) names that parent: retry it.'
  when t.paused then 'Only parked tasks are retried; pgrab.resume(id) lets this one go on.'
  else coalesce(pgrab_internal.run_now_hint(t),
    'Only parked tasks are retried; pgrab.run_now(id) makes this one due at once.') end;
comment on function pgrab_internal.retry_hint is
  'What works instead for a task that cannot be retried. Null: it can.';

create or replace function pgrab_internal.retry(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  c_tasks constant pgrab_internal.task[] := array(select l from pgrab_internal.control_lock(
    pgrab_internal.batch_ids(p_ids, true, p_by), 'retry', p_by, p_ids) l);
  v_ids constant bigint[] := array(select l.id from unnest(c_tasks) l where l.status = 'parked');
begin
  perform pgrab_internal.control_refuse(l, pgrab_internal.retry_hint(l))
  from unnest(c_tasks) l where l.status <> 'parked' and l.id = any (p_ids);
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(
    t.id, t.version, 'retry', p_due_at => clock_timestamp(), p_attempt => 0)))
  from pgrab.task t where t.id = any (v_ids);
  perform pgrab_internal.links_reopen(c.chain, c.ids)
  from (
    select t.chain, array_agg(t.id) as ids from pgrab.task t
    where t.id = any (v_ids) and t.chain is not null group by t.chain) c;
  return query select t.* from pgrab.task t where t.id = any (v_ids) order by t.id;
end $$;
comment on function pgrab_internal.retry is 'pgrab.retry() for a caller.';

create or replace function pgrab_internal.run_now(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  c_now constant timestamptz := clock_timestamp();
begin
  perform pgrab_internal.control_refuse(l, pgrab_internal.run_now_hint(l))
  from pgrab_internal.control_lock(p_ids, 'run', p_by) l where pgrab_internal.run_now_hint(l) is not null;
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version, 'replan', p_due_at => c_now,
    p_fire_at => c_now, p_run_at => c_now, p_attempt => 0, p_settled => false)))
  from pgrab.task t where t.id = any (p_ids);
  return query select t.* from pgrab.task t where t.id = any (p_ids) order by t.id;
end $$;
comment on function pgrab_internal.run_now is 'pgrab.run_now() for a caller.';

create or replace function pgrab_internal.wish_stop(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  insert into pgrab.cancel_request as c (task_id, version, incarnation, asked_by)
  select t.id, t.version, t.incarnation, pgrab_internal.caller() where t.status = 'running'
  on conflict (task_id) do update
  set version = excluded.version, incarnation = excluded.incarnation, asked_at = excluded.asked_at,
    asked_by = excluded.asked_by
  where c.version <> excluded.version;
  if found then
    perform pg_notify('pgrab', 'wish');
  end if;
end $$;
comment on function pgrab_internal.wish_stop is 'Asks the node of a task that is running to stop it.';

create or replace function pgrab_internal.may_see_ended(p_id bigint, p_by text) returns boolean
language sql stable
return pgrab_internal.may_operate(p_by)
  or exists (select from pgrab.last_run(p_id, 'ended') r where r.owner = p_by);
comment on function pgrab_internal.may_see_ended is
  'May this role act on what is left of a task that has ended?';

-- Gives up the fire of a task that has not started; a running one is stopped by its node, which reads
-- pgrab.cancel_request with its heartbeat.  The NOTIFY only makes the node look at once.
create or replace function pgrab_internal.cancel(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  t pgrab_internal.task;
  r record;
  v_running bigint[];
  v_chains bigint[] := '{}'; -- that are cancelled
  v_why constant text := 'cancelled by ' || p_by;
  v_live constant bigint[] := array(
    select i from unnest(pgrab_internal.batch_close(p_ids, p_by)) i
    where not exists (select from pgrab_internal.chain_of_ended(i) e where e.root)
      or not pgrab_internal.may_see_ended(i, p_by));
begin
  for t in
    select * from pgrab_internal.control_lock(
      case when p_ids is not null then v_live end, 'cancel', p_by, p_ids)
  loop
    if t.chain is not null then
      -- it may have been cancelled together with an earlier task of the list
      select * into t from pgrab.task x where x.id = t.id;
      continue when not found;
    end if;
    if t.chain = any (v_chains) then -- what the row says now may be about its next run
      t.status := case when t.status = 'running' then 'running' else 'cancelled' end;
    elsif t.chain is not null and not exists (select from pgrab_internal.parents_of(t.id))
      and (t.schedule is null or pgrab_internal.chain_under_way(t.chain)) then
      v_running := array(select (c).id from pgrab_internal.chain_cancel(t.chain, v_why) c);
      v_chains := v_chains || t.chain;
      t.status := case when t.id = any (v_running) then 'running' else 'cancelled' end;
    elsif t.status = 'running' then
      perform pgrab_internal.wish_stop(t);
    elsif pgrab_internal.is_over(t.status) and t.id <> all (p_ids) then
      continue; -- a member that has ended meanwhile
    elsif pgrab_internal.is_over(t.status) then
      perform pgrab_internal.control_refuse(t,
        'It has ended in this run of its chain. pgrab.cancel(id) of the root stops the rest of the chain.');
    else
      t := pgrab_internal.give_up_fire(t, 'cancelled', 'cancel', v_why);
    end if;
    return next t; -- as it is then: if it is still running, it will stop in a moment
  end loop;
  -- roots that have ended, of chains that go on without them
  for r in
    select distinct on (i) i as id, e.chain, x.name, x.key, x.kind, x.owner
    from unnest(p_ids) i cross join lateral pgrab_internal.chain_of_ended(i) e
      cross join lateral pgrab.last_run(i, 'ended') x
    where i <> all (v_live) and e.root and (x.owner = p_by or pgrab_internal.may_operate(p_by))
  loop
    t := jsonb_populate_record(null::pgrab_internal.task, to_jsonb(r) - 'chain');
    t.status := case when exists (select from pgrab_internal.chain_cancel(r.chain, v_why))
      then 'running' else 'cancelled' end;
    return next t;
  end loop;
end $$;
comment on function pgrab_internal.cancel is 'pgrab.cancel() for a caller.';

create or replace function pgrab_internal.skip_next(p_ids bigint[], p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_task pgrab_internal.task;
  v_hint text;
begin
  for v_task in select * from pgrab_internal.control_lock(p_ids, 'skip', p_by) loop
    v_hint := case when v_task.schedule is null
        then 'It has no schedule, so no other fire follows; pgrab.cancel(id) gives it up.'
      when pgrab_internal.under_way(v_task.status, v_task.incarnation)
        then 'Its next fire is planned when this run has ended; pgrab.cancel(id) stops the run.'
      when v_task.chain is not null and pgrab_internal.chain_under_way(v_task.chain) then 'Its chain is '
        'running, and its next fire is planned when that has ended; pgrab.cancel(id) stops the chain.'
      when v_task.status = 'parked' then 'Its last fire has failed and no other follows; pgrab.retry(id) '
        'tries it again, pgrab.cancel(id) gives it up.' end;
    perform pgrab_internal.control_refuse(v_task, v_hint) where v_hint is not null;
    return next pgrab_internal.give_up_fire(v_task, 'skipped', 'skip', 'skipped by ' || p_by);
  end loop;
end $$;
comment on function pgrab_internal.skip_next is 'pgrab.skip_next() for a caller.';

-- The history keeps the definition, so that a task that was deleted by mistake can be made again.  All leave
-- together, because links that wait for each other can only go together.
create or replace function pgrab_internal.delete(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  c_tasks constant pgrab_internal.task[] := array(
    select l from pgrab_internal.control_lock(p_ids, 'delete', p_by) l);
  t pgrab_internal.task;
begin
  perform pgrab_internal.tasks_leave(c_tasks);
  foreach t in array c_tasks loop
    perform pgrab_internal.batch_deleted(t);
    perform pgrab_internal.link_deleted(t) where t.chain is not null;
    t.status := 'cancelled';
    t.due_at := null;
    return next t;
  end loop;
  delete from pgrab.incident i where i.task_id = any (p_ids);
end $$;
comment on function pgrab_internal.delete is 'pgrab.delete() for a caller.';

-- ------------------------------------------------------------------------------------------------- undelete

-- What was kept of a task that a user has deleted.  pgrab.definition has what a DELETE took; the history has
-- what pgrab.delete() took, and when it was planned.
create or replace function pgrab_internal.deleted(
  p_id bigint, p_by text, out definition jsonb, out owner text, out fire_at timestamptz)
language plpgsql stable as $$
declare
  c_all constant boolean := pgrab_internal.is_member(p_by, pgrab_internal.pgrab_owner());
  v_ended text;
begin
  select r.ended into v_ended from pgrab.last_run(p_id, 'ended') r
  where coalesce(r.error not like 'deleted by %', true) and (c_all or r.owner = p_by);
  if v_ended is not null
    or exists (select from pgrab.task t where t.id = p_id and (c_all or t.owner = p_by)) then
    raise exception using errcode = '55000',
      message = format('task %s was not deleted: it %s', p_id, coalesce('has ended: ' || v_ended, 'is live')),
      hint = 'pgrab.undelete() brings back what a user has deleted. Insert a new task to run this one again.';
  end if;
  select x.definition, x.owner, x.fire_at into definition, owner, fire_at from (
    select jsonb_strip_nulls(jsonb_build_object('kind', r.kind, 'name', r.name))
      || coalesce(r.definition, '{}') as definition, r.owner, r.fire_at, r.finished_at as at
    from pgrab.last_run(p_id, 'ended') r
    union all
    select d.definition, d.owner, null, d.until from pgrab.definition d where d.task_id = p_id) x
  where x.owner = p_by or c_all
  order by x.at desc limit 1;
  if definition is null then
    raise exception using errcode = 'P0002', message = format('nothing is kept of task %s', p_id),
      hint = 'A DELETE keeps the definition of schedules and of tasks that had run, pgrab.delete() that of '
        'all; for as long as the history, and for the owner.';
  end if;
end $$;
comment on function pgrab_internal.deleted is
  'The definition of a task that was deleted; refuses other tasks.';

create or replace function pgrab_internal.definition_parents(p_definition jsonb) returns bigint[]
language sql immutable
return array_remove((p_definition ->> 'parent_id')::bigint || array(
  select (e.edge ->> 'parent_id')::bigint
  from jsonb_array_elements(p_definition -> 'parents') with ordinality e(edge, n) order by e.n), null);
comment on function pgrab_internal.definition_parents is 'The parents of a definition, in their order.';

create or replace function pgrab_internal.definition_above(p_definition jsonb) returns bigint[]
language sql immutable
return array_remove(
  pgrab_internal.definition_parents(p_definition) || (p_definition ->> 'batch')::bigint, null);
comment on function pgrab_internal.definition_above is
  'What has to be there before a task of this definition: its parents, and its batch.';

-- p_new: the new ids of tasks that have just come back, by their old ones.
create or replace function pgrab_internal.undelete_one(p_id bigint, p_new jsonb, p_by text)
returns bigint
language plpgsql as $$
declare
  d record;
  v_parents bigint[];
  v_first integer; -- 1: the first of them is its parent_id
  v_missing bigint;
  v_want jsonb;
  v_id bigint;
begin
  d := pgrab_internal.deleted(p_id, p_by);
  v_first := (d.definition ->> 'parent_id' is not null)::integer;
  select array_agg(coalesce((p_new ->> p.id::text)::bigint, p.id) order by p.n),
    min(p.id) filter (where not p_new ? p.id::text
      and not exists (select from pgrab.task x where x.id = p.id))
  into v_parents, v_missing
  from unnest(pgrab_internal.definition_parents(d.definition)) with ordinality p(id, n);
  if v_missing is not null then
    raise exception using errcode = '55000',
      message = format('task %s cannot come back: its parent %s is not there', p_id, v_missing),
      hint = 'Bring back both in one call: pgrab.undelete(array[...]).';
  end if;
  v_want := d.definition - 'parents'
    - case when pgrab_internal.limit_is_batch(d.definition ->> 'limit_key') then 'limit_key' else '' end
    || jsonb_strip_nulls(jsonb_build_object('owner', d.owner,
    'parent_id', case when v_first = 1 then v_parents[1] end,
    'batch', p_new -> (d.definition ->> 'batch'),
    'run_at', case when d.definition ->> 'schedule' is null and v_parents is null then d.fire_at end));
  v_id := pgrab_tool.add(v_want);
  insert into pgrab.edge (parent_id, child_id, run_if)
  select v_parents[e.n + v_first], v_id, e.edge ->> 'run_if'
  from jsonb_array_elements(d.definition -> 'parents') with ordinality e(edge, n);
  return v_id;
end $$;
comment on function pgrab_internal.undelete_one is 'Inserts a task that was deleted again.';

create or replace function pgrab_internal.undelete(p_ids bigint[], p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
declare
  c_above constant jsonb := (
    select jsonb_object_agg(i, pgrab_internal.definition_above(d.definition))
    from unnest(p_ids) i cross join lateral pgrab_internal.deleted(i, p_by) d);
  v_left bigint[] := array(select distinct i from unnest(p_ids) i order by i);
  v_ready bigint[];
  v_id bigint;
  v_new jsonb := '{}';
begin
  while v_left <> '{}' loop -- parents first
    v_ready := array(
      select i from unnest(v_left) i
      where not exists (
        select from jsonb_array_elements(c_above -> i::text) p where p::bigint = any (v_left)));
    v_ready := case when v_ready = '{}' then v_left else v_ready end; -- a ring: it is refused
    foreach v_id in array v_ready loop
      v_new := v_new || jsonb_build_object(v_id, pgrab_internal.undelete_one(v_id, v_new, p_by));
    end loop;
    v_left := array(select i from unnest(v_left) i where i <> all (v_ready));
  end loop;
  return query select x.* from jsonb_each_text(v_new) n join pgrab.task x on x.id = n.value::bigint
    order by x.id;
end $$;
comment on function pgrab_internal.undelete is 'pgrab.undelete() for a caller.';
