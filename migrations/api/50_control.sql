-- What a person does to tasks.  Each takes one id, an array of them, or a key or name; works inside the
-- caller's transaction, returns the rows it changed, and raises with a hint for an id or a state that cannot
-- be; then nothing of the call has happened.
--
-- Here is what they do (p_by: who calls), then the trigger that they come through (see 10_call.sql), then
-- they themselves.

-- Locks the rows, in id order as everywhere, and refuses ids that are not there.
-- Another's task is not there.
create or replace function pgrab_internal.control_lock(p_ids bigint[], p_what text, p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
declare
  c_all constant boolean := pgrab_internal.may_operate(p_by);
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
  where not exists (select from pgrab.task t where t.id = i and (c_all or t.owner = p_by)) limit 1;
  if found then
    select r.ended into v_ended from pgrab.run r
    where r.task_id = v_missing and r.ended is not null and (c_all or r.owner = p_by) limit 1;
    raise exception using errcode = 'P0002',
      message = format('task %s %s', v_missing, coalesce('has ended: ' || v_ended, 'does not exist')),
      hint = case when v_ended is null then 'select * from pgrab.tasks shows what there is.'
        else format('Insert a new task to run it again; its definition: `pgrab show %s`.', v_missing) end;
  end if;
end $$;
comment on function pgrab_internal.control_lock(bigint[], text, text) is
  'Locks tasks in id order, refuses ids that are not there for who calls.';

create or replace function pgrab_internal.control_refuse(t pgrab_internal.task, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '55000',
    message = format('task %s is %s', t.id || coalesce(' (' || coalesce(t.name, t.key) || ')', ''),
      case when t.paused and t.status <> 'running' then 'paused' else t.status end),
    hint = p_hint, schema = 'pgrab', table = 'task';
end $$;
comment on function pgrab_internal.control_refuse(pgrab_internal.task, text) is
  'Says what state a task is in and what would work.';

create or replace function pgrab_internal.pause(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_ids bigint[];
begin
  perform pgrab_internal.control_lock(p_ids, 'pause', p_by);
  v_ids := array(select t.id from pgrab.task t where t.id = any (p_ids) and not t.paused);
  update pgrab.task t set paused = true where t.id = any (v_ids);
  return query select t.* from pgrab.task t where t.id = any (v_ids) order by t.id;
end $$;
comment on function pgrab_internal.pause(bigint[], text) is 'pgrab.pause() for a caller.';

create or replace function pgrab_internal.resume(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_ids bigint[];
begin
  perform pgrab_internal.control_lock(p_ids, 'resume', p_by);
  v_ids := array(select t.id from pgrab.task t where t.id = any (p_ids) and t.paused);
  update pgrab.task t set paused = false where t.id = any (v_ids);
  return query select t.* from pgrab.task t where t.id = any (v_ids) order by t.id;
end $$;
comment on function pgrab_internal.resume(bigint[], text) is 'pgrab.resume() for a caller.';

create or replace function pgrab_internal.retry_check(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  if t.status <> 'parked' then
    perform pgrab_internal.control_refuse(t, case
      when t.status = 'running' then 'It is being tried at this moment.'
      when t.status = 'skipped' then 'It was skipped because a parent did not end as it asks; '
        'pgrab.explain(id) names that parent: retry it.'
      when t.paused then 'Only parked tasks are retried; pgrab.resume(id) lets this one go on.'
      else 'Only parked tasks are retried; pgrab.run_now(id) makes this one due at once.' end);
  end if;
end $$;
comment on function pgrab_internal.retry_check(pgrab_internal.task) is 'Refuses to retry what is not parked.';

create or replace function pgrab_internal.retry(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
begin
  perform pgrab_internal.retry_check(l) from pgrab_internal.control_lock(p_ids, 'retry', p_by) l;
  update pgrab.task t
  set status = 'scheduled', attempt = 0, version = t.version + 1,
    due_at = case when not t.paused then clock_timestamp() end
  where t.id = any (p_ids);
  perform pgrab_internal.link_reopen(t.id) from pgrab.task t
  where t.id = any (p_ids) and t.chain is not null;
  return query select t.* from pgrab.task t where t.id = any (p_ids) order by t.id;
  perform pgrab_internal.ring(
    (select array_agg(distinct t.shard) from pgrab.task t where t.id = any (p_ids)));
end $$;
comment on function pgrab_internal.retry(bigint[], text) is 'pgrab.retry() for a caller.';

create or replace function pgrab_internal.run_now_check(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  if t.status = 'running' then
    perform pgrab_internal.control_refuse(t, 'It runs already; a task never overlaps itself.');
  elsif t.status = 'parked' then
    perform pgrab_internal.control_refuse(t, 'pgrab.retry(id) tries it again.');
  elsif t.status not in ('scheduled', 'claimed') and t.schedule is not null then
    perform pgrab_internal.control_refuse(t,
      'Its chain is running, and never overlaps itself. pgrab.cancel(id) ends this run.');
  elsif t.status not in ('scheduled', 'claimed') then
    perform pgrab_internal.control_refuse(t,
      'It is a link of a chain, which starts it; pgrab.explain(id) says what it waits for.');
  elsif t.paused then
    perform pgrab_internal.control_refuse(t, 'pgrab.resume(id) first.');
  end if;
end $$;
comment on function pgrab_internal.run_now_check(pgrab_internal.task) is 'Refuses to run now what cannot.';

create or replace function pgrab_internal.run_now(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
begin
  perform pgrab_internal.run_now_check(l) from pgrab_internal.control_lock(p_ids, 'run', p_by) l;
  update pgrab.task t set run_at = clock_timestamp() where t.id = any (p_ids);
  -- now, jitter or not
  return query update pgrab.task t set due_at = t.run_at where t.id = any (p_ids) returning t.*;
end $$;
comment on function pgrab_internal.run_now(bigint[], text) is 'pgrab.run_now() for a caller.';

create or replace function pgrab_internal.wish_stop(p_ids bigint[]) returns void
language plpgsql as $$
begin
  insert into pgrab.cancel_request as c (task_id, version, incarnation, asked_by)
  select t.id, t.version, t.incarnation, pgrab_internal.caller() from pgrab.task t
  where t.id = any (p_ids) and t.status = 'running'
  on conflict (task_id) do update
  set version = excluded.version, incarnation = excluded.incarnation, asked_at = excluded.asked_at,
    asked_by = excluded.asked_by
  where c.version <> excluded.version;
  if found then
    perform pg_notify('pgrab', 'wish');
  end if;
end $$;
comment on function pgrab_internal.wish_stop(bigint[]) is 'Asks the nodes to stop these runs.';

-- Returns the row as it is then: those still running stop in a moment.
create or replace function pgrab_internal.cancel_one(t pgrab_internal.task, p_why text)
returns pgrab_internal.task
language plpgsql as $$
declare
  v_stop bigint[];
begin
  if t.chain is not null and not exists (select from pgrab_internal.parents_of(t.id))
    and (t.schedule is null or pgrab_internal.chain_under_way(t.chain)) then
    v_stop := array(select (c).id from pgrab_internal.chain_cancel(t.chain, p_why) c);
    t.status := case when t.id = any (v_stop) then 'running' else 'cancelled' end;
  elsif t.status = 'running' then
    v_stop := array[t.id];
  elsif t.status in ('done', 'cancelled', 'skipped') then
    perform pgrab_internal.control_refuse(t,
      'It has ended in this run of its chain. pgrab.cancel(id) of the root stops the rest of the chain.');
  else
    v_stop := '{}';
    t := pgrab_internal.give_up_fire(t, 'cancelled', 'cancelled', p_why);
  end if;
  perform pgrab_internal.wish_stop(v_stop);
  return t;
end $$;
comment on function pgrab_internal.cancel_one(pgrab_internal.task, text) is
  'Gives up the current fire of one task.';

-- Roots that have ended, of chains that go on without them.
create or replace function pgrab_internal.cancel_ended(p_ids bigint[], p_why text, p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
declare
  r record;
  t pgrab_internal.task;
  v_stop bigint[];
begin
  for r in
    select distinct on (i) i as id, e.chain, x.name, x.key, x.kind, x.owner
    from unnest(p_ids) i cross join lateral pgrab_internal.chain_of_ended(i) e
      join pgrab.run x on x.task_id = i and x.ended is not null
    where e.root and (x.owner = p_by or pgrab_internal.may_operate(p_by))
  loop
    v_stop := array(select (c).id from pgrab_internal.chain_cancel(r.chain, p_why) c);
    perform pgrab_internal.wish_stop(v_stop);
    t := jsonb_populate_record(null::pgrab_internal.task, to_jsonb(r) - 'chain');
    t.status := case when v_stop = '{}' then 'cancelled' else 'running' end;
    return next t;
  end loop;
end $$;
comment on function pgrab_internal.cancel_ended(bigint[], text, text) is
  'Cancels the rest of chains whose root has ended.';

create or replace function pgrab_internal.may_see_ended(p_id bigint, p_by text) returns boolean
language sql stable
begin atomic
  select pgrab_internal.may_operate(p_by)
    or exists (select from pgrab.run r where r.task_id = p_id and r.ended is not null and r.owner = p_by);
end;
comment on function pgrab_internal.may_see_ended(bigint, text) is
  'May this role act on what is left of a task that has ended?';

-- Stops what runs, and gives up what would run. What runs is stopped by its node, which reads
-- pgrab.cancel_request with its heartbeat; the NOTIFY only makes it look at once.
create or replace function pgrab_internal.cancel(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_task pgrab_internal.task;
  v_why constant text := 'cancelled by ' || p_by;
  v_live constant bigint[] := array(
    select i from unnest(p_ids) i
    where not exists (select from pgrab_internal.chain_of_ended(i) e where e.root)
      or not pgrab_internal.may_see_ended(i, p_by));
begin
  for v_task in
    select * from pgrab_internal.control_lock(case when p_ids is not null then v_live end, 'cancel', p_by)
  loop
    if v_task.chain is not null then
      -- its chain may have gone with an earlier one of the list
      select * into v_task from pgrab.task t where t.id = v_task.id;
      continue when not found;
    end if;
    return next pgrab_internal.cancel_one(v_task, v_why);
  end loop;
  return query select * from pgrab_internal.cancel_ended(p_ids, v_why, p_by);
end $$;
comment on function pgrab_internal.cancel(bigint[], text) is 'pgrab.cancel() for a caller.';

create or replace function pgrab_internal.skip_next_check(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  if t.schedule is null then
    perform pgrab_internal.control_refuse(t,
      'It has no schedule, so nothing comes after the fire; pgrab.cancel(id) gives it up.');
  elsif t.status = 'running' then
    perform pgrab_internal.control_refuse(t,
      'Its next fire is planned when this run has ended; pgrab.cancel(id) stops the run.');
  elsif t.chain is not null and pgrab_internal.chain_under_way(t.chain) then
    perform pgrab_internal.control_refuse(t, 'Its chain is running, and its next fire is planned when '
      'that has ended; pgrab.cancel(id) stops the chain.');
  elsif t.status = 'parked' then
    perform pgrab_internal.control_refuse(t, 'Its last fire has failed and nothing comes after it; '
      'pgrab.retry(id) tries it again, pgrab.cancel(id) gives it up.');
  end if;
end $$;
comment on function pgrab_internal.skip_next_check(pgrab_internal.task) is 'Refuses to skip what cannot be.';

create or replace function pgrab_internal.skip_next(p_ids bigint[], p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_task pgrab_internal.task;
begin
  for v_task in select * from pgrab_internal.control_lock(p_ids, 'skip', p_by) loop
    perform pgrab_internal.skip_next_check(v_task);
    return next pgrab_internal.give_up_fire(v_task, 'skipped', 'skipped', 'skipped by ' || p_by);
  end loop;
end $$;
comment on function pgrab_internal.skip_next(bigint[], text) is 'pgrab.skip_next() for a caller.';

-- The history keeps the definition, so that what was deleted by mistake can be made again.  Of one that runs
-- the trigger of DELETE sees to that, and has it stopped.
create or replace function pgrab_internal.delete(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  t pgrab_internal.task;
begin
  for t in select * from pgrab_internal.control_lock(p_ids, 'delete', p_by) loop
    if t.status <> 'running' then
      perform pgrab_internal.note_fire(t, t.fire_at, 'cancelled', 'deleted by ' || p_by, 'cancelled');
    end if;
    delete from pgrab.task x where x.id = t.id;
    t.status := 'cancelled';
    t.due_at := null;
    return next t;
  end loop;
  delete from pgrab.incident i where i.task_id = any (p_ids);
end $$;
comment on function pgrab_internal.delete(bigint[], text) is 'pgrab.delete() for a caller.';

create or replace function pgrab_internal.node_refuse(p_what text, p_node text) returns void
language plpgsql as $$
begin
  raise exception using errcode = 'P0002',
    message = format('there is no node %s', coalesce(quote_literal(p_node), 'null')),
    hint = coalesce('Nodes are: ' || (
      select string_agg(n.name, ', ' order by n.name)
      from (select n.name from pgrab.node n order by n.state = 'down', n.name limit 20) n) || '.',
      'No node has ever registered; start one: pgrab run.');
end $$;
comment on function pgrab_internal.node_refuse(text, text) is 'Says which nodes there are.';

create or replace function pgrab_internal.drain(p_node text, p_by text) returns pgrab.node
language plpgsql as $$
declare
  n pgrab.node;
begin
  select * into n from pgrab.node x where x.name = p_node;
  if not found then
    perform pgrab_internal.node_refuse('drain', p_node);
  end if;
  insert into pgrab.drained (node_id, asked_by) values (n.id, p_by) on conflict (node_id) do nothing;
  perform pg_notify('pgrab', 'wish');
  n.state := case n.state when 'up' then 'draining' else n.state end; -- as it will be with its next heartbeat
  return n;
end $$;
comment on function pgrab_internal.drain(text, text) is 'pgrab.drain() for a caller.';

create or replace function pgrab_internal.undrain(p_node text, p_by text) returns pgrab.node
language plpgsql as $$
declare
  n pgrab.node;
begin
  select * into n from pgrab.node x where x.name = p_node;
  if not found then
    perform pgrab_internal.node_refuse('undrain', p_node);
  end if;
  delete from pgrab.drained d where d.node_id = n.id;
  perform pg_notify('pgrab', 'wish');
  n.state := case n.state when 'draining' then 'up' else n.state end;
  return n;
end $$;
comment on function pgrab_internal.undrain(text, text) is 'pgrab.undrain() for a caller.';

-- Claims hold a lock on pgrab.hold until they are committed.  The lock below waits for those under way, and
-- those that wait for it see the switch: after the commit nothing is taken.  What was taken and not started
-- is put back; whoever is about to start such a task finds another version.
create or replace function pgrab_internal.pause_all(p_by text, out paused boolean, out put_back bigint)
language plpgsql as $$
begin
  lock table pgrab.hold in share mode;
  update pgrab.cluster c
  set paused = true, paused_at = clock_timestamp(), paused_by = p_by where not c.paused;
  paused := found;
  with free as materialized (
    select t.id
    from (select distinct i.id from pgrab.hold h cross join unnest(h.ids) i(id)) h cross join lateral (
      select x.id from pgrab.task x where x.id = h.id and x.status = 'claimed' for update skip locked) t)
  update pgrab.task t
  set status = 'scheduled', version = t.version + 1, node_id = null, incarnation = null, claimed_at = null
  from free f where t.id = f.id and t.status = 'claimed';
  get diagnostics put_back = row_count;
end $$;
comment on function pgrab_internal.pause_all(text) is 'pgrab.pause_all() for a caller.';

create or replace function pgrab_internal.place(out system_id bigint, out database bigint)
language sql stable
begin atomic
  select s.system_identifier, d.oid::bigint
  from pg_control_system() s, pg_database d where d.datname = current_database();
end;
comment on function pgrab_internal.place() is 'Which database this is, on which server.';

-- Serves: a node that has registered, before it takes anything.  The first one ever writes down where this
-- is.
create or replace function pgrab_internal.is_copy() returns boolean
language plpgsql as $$
declare
  p constant record := pgrab_internal.place();
  c pgrab_internal.cluster;
begin
  update pgrab.cluster x set system_id = p.system_id, database = p.database where x.system_id is null;
  select * into c from pgrab.cluster;
  if (c.system_id, c.database) = (p.system_id, p.database) then
    return false;
  end if;
  update pgrab.cluster x
  set paused = true, paused_at = clock_timestamp(),
    paused_by = 'a node, because this database is a copy of another one'
  where not x.paused;
  return true;
end $$;
comment on function pgrab_internal.is_copy() is
  'True: this database was copied or restored from another one; then all tasks are paused.';

create or replace function pgrab_internal.resume_all() returns boolean
language plpgsql as $$
declare
  p constant record := pgrab_internal.place();
begin
  update pgrab.cluster c
  set paused = false, paused_at = null, paused_by = null, system_id = p.system_id, database = p.database
  where c.paused or (c.system_id, c.database) is distinct from (p.system_id, p.database);
  if not found then
    return false;
  end if;
  perform pgrab_internal.ring('{}');
  return true;
end $$;
comment on function pgrab_internal.resume_all() is 'pgrab.resume_all() for a caller.';

-- ------------------------------------------------------------------------------------------ the way in

create or replace function pgrab_internal.call_tasks(p_verb text, p_ids bigint[], p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
begin
  if cardinality(p_ids) > 500000 then
    raise exception using errcode = '54000', message = format('%s tasks at once', cardinality(p_ids)),
      hint = 'Up to 500000 in one call; or write to pgrab.task: update ... set paused = true where ...';
  end if;
  case p_verb
    when 'pause' then return query select * from pgrab_internal.pause(p_ids, p_by);
    when 'resume' then return query select * from pgrab_internal.resume(p_ids, p_by);
    when 'retry' then return query select * from pgrab_internal.retry(p_ids, p_by);
    when 'run_now' then return query select * from pgrab_internal.run_now(p_ids, p_by);
    when 'cancel' then return query select * from pgrab_internal.cancel(p_ids, p_by);
    when 'skip_next' then return query select * from pgrab_internal.skip_next(p_ids, p_by);
    when 'delete' then return query select * from pgrab_internal.delete(p_ids, p_by);
    when 'delete_chain' then return query select * from pgrab_internal.delete_chain(p_ids[1], p_by);
  end case;
end $$;
comment on function pgrab_internal.call_tasks(text, bigint[], text) is
  'Does to tasks what a function for people is called for.';

create or replace function pgrab_internal.call_cluster(c pgrab_internal.call) returns pgrab_internal.call
language plpgsql as $$
begin
  case c.verb
    when 'drain' then c.node := pgrab_internal.drain(c.word, c.caller);
    when 'undrain' then c.node := pgrab_internal.undrain(c.word, c.caller);
    when 'pause_all' then
      select p.paused, p.put_back into c.done, c.n from pgrab_internal.pause_all(c.caller) p;
    when 'resume_all' then c.done := pgrab_internal.resume_all();
  end case;
  insert into pgrab.event (what, role, task) values (c.verb, c.caller, c.word);
  return c;
end $$;
comment on function pgrab_internal.call_cluster(pgrab_internal.call) is
  'Does to nodes and to the cluster what a function for people is called for.';

create or replace function pgrab_internal.called() returns trigger
language plpgsql as $$
declare
  c_before constant text[] := pgrab_internal.call_begin(new.verb, new.caller);
begin
  if new.verb = 'apply' then
    new.n := pgrab_internal.apply(new.file, new.word, new.done, new.caller);
  elsif new.verb in ('drain', 'undrain', 'pause_all', 'resume_all') then
    new := pgrab_internal.call_cluster(new);
  else
    new.tasks := array(select t from pgrab_internal.call_tasks(new.verb, new.ids, new.caller) t);
    perform pgrab_internal.event(new.verb, new.caller, t) from unnest(new.tasks) t;
  end if;
  perform pgrab_internal.call_end(c_before);
  return new;
end $$;
comment on function pgrab_internal.called() is
  'What the functions for people do, and that it is written down.';
create trigger call_10 instead of insert on pgrab_internal.call
  for each row execute function pgrab_internal.called();

create or replace function pgrab.pause(p_ids bigint[]) returns setof pgrab_internal.task
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, ids) values ('pause', p_ids) returning tasks)
  select t.* from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.pause(bigint[]) is
  'No start of these tasks after the commit; what runs goes on. Returns the rows that were not paused '
  'before.';
create or replace function pgrab.pause(p_id bigint) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.pause(array[p_id]);
end;
comment on function pgrab.pause(bigint) is
  'No start of this task after the commit; if it runs, it goes on.';
create or replace function pgrab.pause(p_task text) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.pause(array[pgrab.id_of(p_task)]);
end;
comment on function pgrab.pause(text) is 'The same for a task that is named by its key or its name.';

create or replace function pgrab.resume(p_ids bigint[]) returns setof pgrab_internal.task
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, ids) values ('resume', p_ids) returning tasks)
  select t.* from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.resume(bigint[]) is
  'Undoes pause: the tasks are due as planned, at once if that time has passed. Returns the rows that were '
  'paused.';
create or replace function pgrab.resume(p_id bigint) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.resume(array[p_id]);
end;
comment on function pgrab.resume(bigint) is
  'Undoes pause.';
create or replace function pgrab.resume(p_task text) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.resume(array[pgrab.id_of(p_task)]);
end;
comment on function pgrab.resume(text) is 'The same for a task that is named by its key or its name.';

create or replace function pgrab.retry(p_ids bigint[]) returns setof pgrab_internal.task
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, ids) values ('retry', p_ids) returning tasks)
  select t.* from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.retry(bigint[]) is
  'Starts parked tasks again at once, with all their attempts. The planned time (fire_at) stays. The chain '
  'of a link goes on from there: what was skipped because of it waits again.';
create or replace function pgrab.retry(p_id bigint) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.retry(array[p_id]);
end;
comment on function pgrab.retry(bigint) is
  'Starts a parked task again at once, with all its attempts.';
create or replace function pgrab.retry(p_task text) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.retry(array[pgrab.id_of(p_task)]);
end;
comment on function pgrab.retry(text) is 'The same for a task that is named by its key or its name.';

create or replace function pgrab.run_now(p_ids bigint[]) returns setof pgrab_internal.task
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, ids) values ('run_now', p_ids) returning tasks)
  select t.* from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.run_now(bigint[]) is
'Makes tasks due at once, with all their attempts.';
create or replace function pgrab.run_now(p_id bigint) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.run_now(array[p_id]);
end;
comment on function pgrab.run_now(bigint) is
  'Makes a task due at once.';
create or replace function pgrab.run_now(p_task text) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.run_now(array[pgrab.id_of(p_task)]);
end;
comment on function pgrab.run_now(text) is 'The same for a task that is named by its key or its name.';

create or replace function pgrab.cancel(p_ids bigint[]) returns setof pgrab_internal.task
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, ids) values ('cancel', p_ids) returning tasks)
  select t.* from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.cancel(bigint[]) is
  'Gives up the current fire of these tasks. Not started: at once; running: stopped, on whichever node, '
  'within two seconds. A one-shot task ends with it (status cancelled); a schedule goes on with its next '
  'fire: pause the task to stop that too, delete it to end it. Of a root: the whole run of its chain. Returns'
  ' the rows: those still running stop in a moment.';
create or replace function pgrab.cancel(p_id bigint) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.cancel(array[p_id]);
end;
comment on function pgrab.cancel(bigint) is
  'Gives up the current fire of this task: not started, at once; running, stopped within two seconds. Its '
  'schedule, if it has one, goes on.';
create or replace function pgrab.cancel(p_task text) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.cancel(array[pgrab.id_of(p_task)]);
end;
comment on function pgrab.cancel(text) is 'The same for a task that is named by its key or its name.';

create or replace function pgrab.skip_next(p_ids bigint[]) returns setof pgrab_internal.task
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, ids) values ('skip_next', p_ids) returning tasks)
  select t.* from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.skip_next(bigint[]) is
  'The next fire of these schedules will not run; it is recorded as skipped, and the one after it planned. A '
  'fire that waits for another try is skipped too.';
create or replace function pgrab.skip_next(p_id bigint) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.skip_next(array[p_id]);
end;
comment on function pgrab.skip_next(bigint) is
  'The next fire of this schedule will not run; it is recorded as skipped.';
create or replace function pgrab.skip_next(p_task text) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.skip_next(array[pgrab.id_of(p_task)]);
end;
comment on function pgrab.skip_next(text) is 'The same for a task that is named by its key or its name.';

create or replace function pgrab.delete(p_ids bigint[]) returns setof pgrab_internal.task
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, ids) values ('delete', p_ids) returning tasks)
  select t.* from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.delete(bigint[]) is
  'Deletes tasks and their schedules; what runs is stopped. The history keeps their definitions. A task that '
  'others wait for is refused: pgrab.delete_chain().';
create or replace function pgrab.delete(p_id bigint) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.delete(array[p_id]);
end;
comment on function pgrab.delete(bigint) is
  'Deletes a task and its schedule; if it runs, it is stopped. The history keeps its definition.';
create or replace function pgrab.delete(p_task text) returns setof pgrab_internal.task
language sql
begin atomic
  select * from pgrab.delete(array[pgrab.id_of(p_task)]);
end;
comment on function pgrab.delete(text) is 'The same for a task that is named by its key or its name.';

create or replace function pgrab.delete_chain(p_id bigint) returns setof bigint
language sql
begin atomic
  with done as (
    insert into pgrab_internal.call (verb, ids) values ('delete_chain', array[p_id]) returning tasks)
  select t.id from done d cross join unnest(d.tasks) t;
end;
comment on function pgrab.delete_chain(bigint) is
  'Deletes a task with everything that hangs below it; what runs of it is stopped. Returns the ids.';

create or replace function pgrab.drain(p_node text) returns setof pgrab.node
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, word) values ('drain', p_node) returning node)
  select (d.node).* from done d;
end;
comment on function pgrab.drain(text) is
  'The node takes no new tasks, hands back what it has not started, and finishes what it runs. It stays so, '
  'also over a restart, until pgrab.undrain().';

create or replace function pgrab.undrain(p_node text) returns setof pgrab.node
language sql
begin atomic
  with done as (insert into pgrab_internal.call (verb, word) values ('undrain', p_node) returning node)
  select (d.node).* from done d;
end;
comment on function pgrab.undrain(text) is
  'The node takes tasks again.';

create or replace function pgrab.pause_all(out paused boolean, out put_back bigint)
language sql
begin atomic
  with answer as (insert into pgrab_internal.call (verb) values ('pause_all') returning done, n)
  select a.done, a.n from answer a;
end;
comment on function pgrab.pause_all() is
  'No start of any task after the commit, on any node, until pgrab.resume_all(); what runs goes on. For '
  'maintenance, and after a copy of a production database was restored elsewhere. Says whether that was news,'
  ' and how many tasks nodes had taken and not started.';

create or replace function pgrab.resume_all() returns boolean
language sql
begin atomic
  with answer as (insert into pgrab_internal.call (verb) values ('resume_all') returning done)
  select a.done from answer a;
end;
comment on function pgrab.resume_all() is
  'Undoes pgrab.pause_all(). What has become due meanwhile runs as each task''s misfire says. In a copy of a '
  'database it is the consent that its tasks run here, as pgrab.adopt() is. False: nothing was paused.';

create or replace function pgrab.adopt() returns boolean
language sql
begin atomic
  select pgrab.resume_all();
end;
comment on function pgrab.adopt() is
  'This database is a copy or was restored elsewhere, and its tasks are to run here: until this is said nodes'
  ' take nothing. False: there was nothing to say.';
