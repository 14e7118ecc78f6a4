-- What a person does to tasks.  Each takes one id or an array, works inside the caller's transaction, returns the rows it changed, and raises with a hint for an id or a
-- state that cannot be; then nothing of the call has happened.

-- Locks the rows, in id order as everywhere, and refuses ids that are not there.
create or replace function pgrab_internal.control_lock(p_ids bigint[], p_what text) returns setof pgrab.task
language plpgsql as $$
declare
  v_missing bigint;
  v_ended text;
begin
  if p_ids is null or array_position(p_ids, null) is not null then
    raise exception using errcode = '22004', message = format('pgrab.%s: an id is null', p_what), hint = 'Give the id of a task, or an array of ids.';
  end if;
  return query select t.* from pgrab.task t where t.id = any (p_ids) order by t.id for update;
  select i into v_missing from unnest(p_ids) i where not exists (select from pgrab.task t where t.id = i) limit 1;
  if found then
    select r.ended into v_ended from pgrab.run r where r.task_id = v_missing and r.ended is not null limit 1;
    raise exception using errcode = 'P0002', message = format('pgrab.%s: task %s %s', p_what, v_missing, case when v_ended is null then 'does not exist' else 'has ended: ' || v_ended end),
      hint = case when v_ended is null then 'select * from pgrab.tasks shows what there is.' else 'Insert a new task to run it again; its definition: `pgrab show ' || v_missing || '`.' end;
  end if;
end $$;
comment on function pgrab_internal.control_lock(bigint[], text) is 'Internal: locks tasks in id order, refuses ids that are not there.';

create or replace function pgrab_internal.control_refuse(p_what text, t pgrab.task, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '55000', message = format('pgrab.%s: task %s is %s', p_what, t.id, case when t.paused and t.status <> 'running' then 'paused' else t.status end), hint = p_hint, schema = 'pgrab', table = 'task';
end $$;
comment on function pgrab_internal.control_refuse(text, pgrab.task, text) is 'Internal: says what state a task is in and what would work.';

create or replace function pgrab.pause(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
begin
  perform pgrab_internal.control_lock(p_ids, 'pause');
  return query update pgrab.task t set paused = true where t.id = any (p_ids) and not t.paused returning t.*;
end $$;
comment on function pgrab.pause(bigint[]) is 'No start of these tasks after the commit; what runs goes on. Returns the rows that were not paused before.';

create or replace function pgrab.resume(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
begin
  perform pgrab_internal.control_lock(p_ids, 'resume');
  return query update pgrab.task t set paused = false where t.id = any (p_ids) and t.paused returning t.*;
end $$;
comment on function pgrab.resume(bigint[]) is 'Undoes pause: the tasks are due as planned, at once if that time has passed. Returns the rows that were paused.';

create or replace function pgrab.retry(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
declare
  v_task pgrab.task;
begin
  for v_task in select * from pgrab_internal.control_lock(p_ids, 'retry') loop
    if v_task.status <> 'parked' then
      perform pgrab_internal.control_refuse('retry', v_task, case when v_task.status = 'running' then 'It is being tried at this moment.'
        when v_task.status = 'skipped' then 'It was skipped because a parent did not end as it asks; pgrab.explain(id) names that parent: retry it.'
        when v_task.paused then 'Only parked tasks are retried; pgrab.resume(id) lets this one go on.'
        else 'Only parked tasks are retried; pgrab.run_now(id) makes this one due at once.' end);
    end if;
  end loop;
  update pgrab.task t
  set status = 'scheduled', attempt = 0, version = t.version + 1, due_at = case when not t.paused then clock_timestamp() end
  where t.id = any (p_ids);
  perform pgrab_internal.link_reopen(t.id) from pgrab.task t where t.id = any (p_ids) and t.chain is not null;
  return query select t.* from pgrab.task t where t.id = any (p_ids);
  perform pgrab_internal.ring((select array_agg(distinct t.shard) from pgrab.task t where t.id = any (p_ids)));
end $$;
comment on function pgrab.retry(bigint[]) is 'Parked tasks get all their attempts anew, at once. The planned time (fire_at) stays. The chain of a link goes on from there: what was skipped because of it waits again.';

create or replace function pgrab.run_now(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
declare
  v_task pgrab.task;
begin
  for v_task in select * from pgrab_internal.control_lock(p_ids, 'run_now') loop
    if v_task.status = 'running' then
      perform pgrab_internal.control_refuse('run_now', v_task, 'It runs already; a task never overlaps itself.');
    elsif v_task.status = 'parked' then
      perform pgrab_internal.control_refuse('run_now', v_task, 'pgrab.retry(id) tries it again.');
    elsif v_task.status not in ('scheduled', 'claimed') and v_task.schedule is not null then
      perform pgrab_internal.control_refuse('run_now', v_task, 'Its chain is under way, and never overlaps itself. pgrab.cancel(id) ends this run.');
    elsif v_task.status not in ('scheduled', 'claimed') then
      perform pgrab_internal.control_refuse('run_now', v_task, 'It is a link of a chain, which starts it; pgrab.explain(id) says what it waits for.');
    elsif v_task.paused then
      perform pgrab_internal.control_refuse('run_now', v_task, 'pgrab.resume(id) first.');
    end if;
  end loop;
  update pgrab.task t set run_at = clock_timestamp() where t.id = any (p_ids);
  return query update pgrab.task t set due_at = t.run_at where t.id = any (p_ids) returning t.*; -- now, jitter or not
end $$;
comment on function pgrab.run_now(bigint[]) is 'Makes tasks due at once, with all their attempts.';

create or replace function pgrab_internal.wish_stop(p_ids bigint[]) returns void
language plpgsql as $$
begin
  insert into pgrab.cancel_request as c (task_id, version, incarnation) select t.id, t.version, t.incarnation from pgrab.task t where t.id = any (p_ids) and t.status = 'running'
  on conflict (task_id) do update set version = excluded.version, incarnation = excluded.incarnation, asked_at = excluded.asked_at, asked_by = excluded.asked_by
  where c.version <> excluded.version;
  if found then
    perform pg_notify('pgrab', 'wish');
  end if;
end $$;
comment on function pgrab_internal.wish_stop(bigint[]) is 'Internal: asks the nodes to stop these runs.';

-- Stops what runs, and gives up what would run. What runs is stopped by its node, which reads pgrab.cancel_request with its heartbeat; the NOTIFY only makes it look at once.
create or replace function pgrab.cancel(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
declare
  v_task pgrab.task;
  v_ended record;
  v_stop bigint[];
  v_why constant text := 'cancelled by ' || session_user;
begin
  for v_task in select * from pgrab_internal.control_lock(array(select i from unnest(p_ids) i where not exists (select from pgrab_internal.chain_of_ended(i) e where e.root)), 'cancel') loop
    if v_task.chain is not null then
      select * into v_task from pgrab.task t where t.id = v_task.id; -- its chain may have gone with an earlier one of the list
      continue when not found;
    end if;
    if v_task.chain is not null and not exists (select from pgrab_internal.parents_of(v_task.id)) and (v_task.schedule is null or pgrab_internal.chain_under_way(v_task.chain)) then
      v_stop := array(select (c).id from pgrab_internal.chain_cancel(v_task.chain, v_why) c);
      v_task.status := case when v_task.id = any (v_stop) then 'running' else 'cancelled' end;
    elsif v_task.status = 'running' then
      v_stop := array[v_task.id];
    elsif v_task.status in ('done', 'cancelled', 'skipped') then
      perform pgrab_internal.control_refuse('cancel', v_task, 'It has ended in this run of its chain. pgrab.cancel(id) of the root stops the rest of the chain.');
    else
      v_stop := '{}';
      v_task := pgrab_internal.give_up_fire(v_task, 'cancelled', 'cancelled', v_why);
    end if;
    perform pgrab_internal.wish_stop(v_stop);
    return next v_task;
  end loop;
  -- Roots that have ended, of chains that go on without them.
  for v_ended in select distinct on (i) i as id, e.chain, r.name, r.kind, r.owner from unnest(p_ids) i cross join lateral pgrab_internal.chain_of_ended(i) e join pgrab.run r on r.task_id = i and r.ended is not null where e.root loop
    v_stop := array(select (c).id from pgrab_internal.chain_cancel(v_ended.chain, v_why) c);
    perform pgrab_internal.wish_stop(v_stop);
    v_task := null;
    v_task.id := v_ended.id;
    v_task.name := v_ended.name;
    v_task.kind := v_ended.kind;
    v_task.owner := v_ended.owner;
    v_task.status := case when v_stop = '{}' then 'cancelled' else 'running' end;
    return next v_task;
  end loop;
end $$;
comment on function pgrab.cancel(bigint[]) is 'Gives up the current fire of these tasks. Not started: at once; running: stopped, on whichever node, within two seconds. A one-shot task ends with it (status cancelled); a schedule goes on with its next fire: pause the task to stop that too, delete it to end it. Of a root: the whole run of its chain. Returns the rows: those still running stop in a moment.';

create or replace function pgrab.skip_next(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
declare
  v_task pgrab.task;
begin
  for v_task in select * from pgrab_internal.control_lock(p_ids, 'skip_next') loop
    if v_task.schedule is null then
      perform pgrab_internal.control_refuse('skip_next', v_task, 'It has no schedule, so nothing comes after the fire; pgrab.cancel(id) gives it up.');
    elsif v_task.status = 'running' then
      perform pgrab_internal.control_refuse('skip_next', v_task, 'Its next fire is planned when this run has ended; pgrab.cancel(id) stops the run.');
    elsif v_task.chain is not null and pgrab_internal.chain_under_way(v_task.chain) then
      perform pgrab_internal.control_refuse('skip_next', v_task, 'Its chain is under way, and its next fire is planned when that has ended; pgrab.cancel(id) stops the chain.');
    elsif v_task.status = 'parked' then
      perform pgrab_internal.control_refuse('skip_next', v_task, 'Its last fire has failed and nothing comes after it; pgrab.retry(id) tries it again, pgrab.cancel(id) gives it up.');
    end if;
    return next pgrab_internal.give_up_fire(v_task, 'skipped', 'skipped', 'skipped by ' || session_user);
  end loop;
end $$;
comment on function pgrab.skip_next(bigint[]) is 'The next fire of these schedules will not run; it is recorded as skipped, and the one after it planned. A fire that waits for another try is skipped too.';

create or replace function pgrab_internal.node_refuse(p_what text, p_node text) returns void
language plpgsql as $$
begin
  raise exception using errcode = 'P0002', message = format('pgrab.%s: there is no node %s', p_what, coalesce(quote_literal(p_node), 'null')),
    hint = coalesce('Nodes are: ' || (select string_agg(n.name, ', ' order by n.name) from (select n.name from pgrab.node n order by n.state = 'down', n.name limit 20) n) || '.', 'No node has ever registered; start one: pgrab run.');
end $$;
comment on function pgrab_internal.node_refuse(text, text) is 'Internal: says which nodes there are.';

create or replace function pgrab.drain(p_node text) returns setof pgrab.node
language plpgsql as $$
declare
  n pgrab.node;
begin
  select * into n from pgrab.node x where x.name = p_node;
  if not found then
    perform pgrab_internal.node_refuse('drain', p_node);
  end if;
  insert into pgrab.drained (node_id) values (n.id) on conflict (node_id) do nothing;
  perform pg_notify('pgrab', 'wish');
  n.state := case n.state when 'up' then 'draining' else n.state end; -- as it will be with its next heartbeat
  return next n;
end $$;
comment on function pgrab.drain(text) is 'The node takes no new tasks, hands back what it has not started, and finishes what it runs. It stays so, also over a restart, until pgrab.undrain().';

create or replace function pgrab.undrain(p_node text) returns setof pgrab.node
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
  return next n;
end $$;
comment on function pgrab.undrain(text) is 'The node takes tasks again.';

create or replace function pgrab.pause(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.pause(array[p_id])';
comment on function pgrab.pause(bigint) is 'No start of this task after the commit; if it runs, it goes on.';
create or replace function pgrab.resume(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.resume(array[p_id])';
comment on function pgrab.resume(bigint) is 'Undoes pause.';
create or replace function pgrab.retry(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.retry(array[p_id])';
comment on function pgrab.retry(bigint) is 'A parked task gets all its attempts anew, at once.';
create or replace function pgrab.run_now(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.run_now(array[p_id])';
comment on function pgrab.run_now(bigint) is 'Makes a task due at once.';
create or replace function pgrab.cancel(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.cancel(array[p_id])';
comment on function pgrab.cancel(bigint) is 'Gives up the current fire of this task: not started, at once; running, stopped within two seconds. Its schedule, if it has one, goes on.';
create or replace function pgrab.skip_next(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.skip_next(array[p_id])';
comment on function pgrab.skip_next(bigint) is 'The next fire of this schedule will not run; it is recorded as skipped.';
