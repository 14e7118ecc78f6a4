-- What a person does to tasks.  Each takes one id or an array, works inside the caller's transaction, returns the rows it changed, and raises with a hint for an id or a
-- state that cannot be; then nothing of the call has happened.

-- Locks the rows, in id order as everywhere, and refuses ids that are not there.
create or replace function pgrab.control_lock(p_ids bigint[], p_what text) returns setof pgrab.task
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
comment on function pgrab.control_lock(bigint[], text) is 'Internal: locks tasks in id order, refuses ids that are not there.';

create or replace function pgrab.control_refuse(p_what text, t pgrab.task, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '55000', message = format('pgrab.%s: task %s is %s', p_what, t.id, case when t.paused and t.status <> 'running' then 'paused' else t.status end), hint = p_hint;
end $$;
comment on function pgrab.control_refuse(text, pgrab.task, text) is 'Internal: says what state a task is in and what would work.';

create or replace function pgrab.pause(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
begin
  perform pgrab.control_lock(p_ids, 'pause');
  return query update pgrab.task t set paused = true where t.id = any (p_ids) and not t.paused returning t.*;
end $$;
comment on function pgrab.pause(bigint[]) is 'No start of these tasks after the commit; what runs goes on. Returns the rows that were not paused before.';

create or replace function pgrab.resume(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
begin
  perform pgrab.control_lock(p_ids, 'resume');
  return query update pgrab.task t set paused = false where t.id = any (p_ids) and t.paused returning t.*;
end $$;
comment on function pgrab.resume(bigint[]) is 'Undoes pause: the tasks are due as planned, at once if that time has passed. Returns the rows that were paused.';

create or replace function pgrab.retry(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
declare
  v_task pgrab.task;
begin
  for v_task in select * from pgrab.control_lock(p_ids, 'retry') loop
    if v_task.status <> 'parked' then
      perform pgrab.control_refuse('retry', v_task, case when v_task.status = 'running' then 'It is being tried at this moment.'
        when v_task.paused then 'Only parked tasks are retried; pgrab.resume(id) lets this one go on.'
        else 'Only parked tasks are retried; pgrab.run_now(id) makes this one due at once.' end);
    end if;
  end loop;
  return query
    update pgrab.task t
    set status = 'scheduled', attempt = 0, version = t.version + 1, due_at = case when not t.paused then clock_timestamp() end
    where t.id = any (p_ids) returning t.*;
  perform pgrab.ring((select array_agg(distinct t.shard) from pgrab.task t where t.id = any (p_ids)));
end $$;
comment on function pgrab.retry(bigint[]) is 'Parked tasks get all their attempts anew, at once. The planned time (fire_at) stays.';

create or replace function pgrab.run_now(p_ids bigint[]) returns setof pgrab.task
language plpgsql as $$
declare
  v_task pgrab.task;
begin
  for v_task in select * from pgrab.control_lock(p_ids, 'run_now') loop
    if v_task.status = 'running' then
      perform pgrab.control_refuse('run_now', v_task, 'It runs already; a task never overlaps itself.');
    elsif v_task.status = 'parked' then
      perform pgrab.control_refuse('run_now', v_task, 'pgrab.retry(id) tries it again.');
    elsif v_task.paused then
      perform pgrab.control_refuse('run_now', v_task, 'pgrab.resume(id) first.');
    end if;
  end loop;
  return query update pgrab.task t set run_at = clock_timestamp() where t.id = any (p_ids) returning t.*;
end $$;
comment on function pgrab.run_now(bigint[]) is 'Makes tasks due at once, with all their attempts.';

create or replace function pgrab.pause(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.pause(array[p_id])';
comment on function pgrab.pause(bigint) is 'No start of this task after the commit; if it runs, it goes on.';
create or replace function pgrab.resume(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.resume(array[p_id])';
comment on function pgrab.resume(bigint) is 'Undoes pause.';
create or replace function pgrab.retry(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.retry(array[p_id])';
comment on function pgrab.retry(bigint) is 'A parked task gets all its attempts anew, at once.';
create or replace function pgrab.run_now(p_id bigint) returns setof pgrab.task language sql as 'select * from pgrab.run_now(array[p_id])';
comment on function pgrab.run_now(bigint) is 'Makes a task due at once.';
