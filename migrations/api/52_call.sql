-- The public functions of pgrab.  Each goes through the view pgrab_internal.call (10_call.sql), whose trigger
-- calls 50_control.sql or 51_cluster.sql and records who did what.

create or replace function pgrab_internal.call_tasks(p_verb text, p_ids bigint[], p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
begin
  if cardinality(p_ids) > 500000 then
    raise exception using errcode = '54000', message = format('%s tasks at once', cardinality(p_ids)),
      hint = 'One call takes at most 500000. Or update pgrab.task: update ... set paused = true where ...';
  end if;
  case p_verb
    when 'pause', 'resume' then return query select * from pgrab_internal.pause(p_ids, p_verb, p_by);
    when 'retry' then return query select * from pgrab_internal.retry(p_ids, p_by);
    when 'run_now' then return query select * from pgrab_internal.run_now(p_ids, p_by);
    when 'cancel' then return query select * from pgrab_internal.cancel(p_ids, p_by);
    when 'seal' then return query select * from pgrab_internal.seal(p_ids, p_by);
    when 'skip_next' then return query select * from pgrab_internal.skip_next(p_ids, p_by);
    when 'delete' then return query select * from pgrab_internal.delete(p_ids, p_by);
    when 'undelete' then return query select * from pgrab_internal.undelete(p_ids, p_by);
    when 'delete_chain' then return query select * from pgrab_internal.delete_chain(p_ids[1], p_by);
  end case;
end $$;
comment on function pgrab_internal.call_tasks is 'Carries out a public function on tasks.';

-- What is not the caller's own is left alone, as if it did not exist.
create or replace function pgrab_internal.call_delete(c pgrab_internal.call) returns boolean
language plpgsql as $$
declare
  c_all constant boolean := pgrab_internal.may_operate(c.caller);
begin
  case c.verb
    when 'delete_edge' then
      delete from pgrab.edge e
      where e.parent_id = c.ids[1] and e.child_id = c.ids[2] and (c_all or exists (
        select from pgrab.task t where t.id = e.child_id and t.owner = c.caller));
    when 'delete_limit' then
      delete from pgrab.limit l where l.key = c.word and (c_all or l.owner = c.caller);
    when 'delete_calendar' then
      delete from pgrab.calendar k where k.name = c.word and (c_all or k.owner = c.caller);
    when 'delete_blackout' then
      return pgrab_internal.blackout_delete(c.word, c_all, c.caller);
    when 'delete_calendar_day' then
      delete from pgrab.calendar_day d
      where d.calendar = c.word and d.day = (c.file #>> '{}')::date and (c_all or exists (
        select from pgrab.calendar k where k.name = d.calendar and k.owner = c.caller));
    when 'delete_alert' then
      delete from pgrab.alert a where a.name = c.word and (c_all or a.set_by = c.caller);
    when 'delete_secret' then
      delete from pgrab.secret s where s.name = c.word and s.owner = c.caller;
    when 'delete_token' then
      delete from pgrab.token t
      where t.name = c.word and (c_all or pgrab_internal.may_become(c.caller, t.role));
  end case;
  return found;
end $$;
comment on function pgrab_internal.call_delete is
  'Deletes rows of tables on which who submits has no DELETE.';

create or replace function pgrab_internal.signal_detail(p_name text, p_payload jsonb) returns jsonb
language sql immutable
return jsonb_build_object('signal', p_name) || case when length(p_payload::text) > 200
  then jsonb_build_object('payload_begins', left(p_payload::text, 200))
  else jsonb_build_object('payload', p_payload) end;
comment on function pgrab_internal.signal_detail is
  'The detail of the event of a signal. What is long is cut, and is no JSON any more, as its key says.';

create or replace function pgrab_internal.called() returns trigger
language plpgsql as $$
declare
  v_before text[] := pgrab_internal.call_begin(new.verb, new.caller);
begin
  perform pgrab_internal.call_check(new.verb, new.caller);
  if new.verb = 'apply' then
    new.n := pgrab_internal.apply(new.file, new.word, new.done, new.caller);
  elsif new.verb in ('drain', 'undrain', 'pause_all', 'resume_all', 'adopt', 'rotate_answer_key') then
    case new.verb
      when 'drain' then new.node := pgrab_internal.drain(new.word, new.caller);
      when 'undrain' then new.node := pgrab_internal.undrain(new.word);
      when 'pause_all' then
        select p.paused, p.put_back into new.done, new.n from pgrab_internal.pause_all(new.caller) p;
      when 'resume_all', 'adopt' then new.done := pgrab_internal.resume_all(new.verb = 'adopt');
      when 'rotate_answer_key' then
        -- twice, and no token that is out is worth anything
        delete from pgrab_internal.key k where k.name = 'answer_before';
        update pgrab_internal.key k set name = 'answer_before' where k.name = 'answer';
        insert into pgrab_internal.key (name, value) values ('answer', pgrab_internal.answer_key_make());
        new.done := true;
    end case;
    -- adopt() is a resume_all() that may happen in a copy
    insert into pgrab.event (what, role, task)
    values (replace(new.verb, 'adopt', 'resume_all'), new.caller, new.word);
  elsif new.verb = 'resolve' then
    new.word := pgrab_internal.resolve(new.ids[1], new.word, new.file, new.caller);
  elsif new.verb = 'backfill' then
    new.file := pgrab_internal.backfill(new.ids, new.file, new.caller);
  elsif new.verb in ('delete_edge', 'delete_limit', 'delete_alert', 'delete_secret', 'delete_token',
    'delete_calendar', 'delete_calendar_day', 'delete_blackout') then
    new.done := pgrab_internal.call_delete(new);
  else
    new.tasks := case when new.verb = 'signal'
      then array(select t from pgrab_internal.signal(new.ids, new.word, new.file, new.caller) t)
      else array(select t from pgrab_internal.call_tasks(new.verb, new.ids, new.caller) t) end;
    insert into pgrab.event (what, role, task_id, task, owner, detail)
    select new.verb, new.caller, t.id, coalesce(t.name, t.key), t.owner,
      case when new.verb = 'signal' then pgrab_internal.signal_detail(new.word, new.file) end
    from unnest(new.tasks) t;
  end if;
  v_before := pgrab_internal.call_end(v_before);
  return new;
end $$;
comment on function pgrab_internal.called() is 'Trigger: carries out a public function, and records it.';
create trigger call_10 instead of insert on pgrab_internal.call
  for each row execute function pgrab_internal.called();

-- Parsed, so that it reaches the view; a function of any type of argument cannot be.
create or replace function pgrab_tool.call(
  p_verb text, p_word text default null, p_ids bigint[] default null, p_file jsonb default null)
returns pgrab_internal.call
language sql
begin atomic
  with answer as (
    insert into pgrab_internal.call (verb, word, ids, file)
    values (p_verb, p_word, p_ids, p_file) returning *)
  select a.* from answer a;
end;
comment on function pgrab_tool.call is 'The public function of this name, and what it answers.';

create or replace function pgrab_tool.on_tasks(
  p_verb text, p_ids bigint[], p_word text default null, p_file jsonb default null)
returns setof pgrab_internal.task
language sql
begin atomic
  select t.* from pgrab_tool.call(p_verb, p_word, p_ids, p_file) c cross join unnest(c.tasks) t;
end;
comment on function pgrab_tool.on_tasks is 'The public function of this name, for tasks by their ids.';

-- Each takes what pgrab_tool.ids_of() takes.
create or replace function pgrab.pause(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('pause', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.pause(anycompatible) is
  'These tasks are not started after the commit; runs in progress continue. Returns the rows that were not '
  'paused before.';

create or replace function pgrab.resume(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('resume', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.resume(anycompatible) is
  'Undoes pause: the tasks are due as planned, or at once if that time has passed. Returns the rows that '
  'were paused.';

create or replace function pgrab.retry(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('retry', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.retry(anycompatible) is
  'Starts parked tasks again at once, with all their attempts. The planned time (fire_at) stays. The chain '
  'of a link continues from there: links that were skipped because of it wait again.';

create or replace function pgrab.run_now(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('run_now', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.run_now(anycompatible) is 'Makes tasks due at once, with all their attempts.';

create or replace function pgrab.cancel(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('cancel', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.cancel(anycompatible) is
  'Gives up the current fire of these tasks. One that has not started is cancelled at once; a running one is '
  'stopped, on whichever node, within two seconds. A one-shot task ends (status cancelled); a schedule '
  'continues with its next fire: pause the task to prevent that, delete it to end it. For a root, the whole '
  'run of its chain is cancelled. Returns the rows: those still running will stop in a moment.';

create or replace function pgrab.skip_next(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('skip_next', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.skip_next(anycompatible) is
  'The next fire of these schedules will not run; it is recorded as skipped, and the one after it is '
  'planned. A fire that waits for another attempt is skipped, too.';

create or replace function pgrab.delete(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('delete', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.delete(anycompatible) is
  'Deletes tasks and their schedules; runs in progress are stopped. The history keeps their definitions. '
  'Refuses a task that others wait for: use pgrab.delete_chain().';

create or replace function pgrab.delete_chain(p_id bigint) returns setof bigint
language sql
begin atomic
  select t.id from pgrab_tool.on_tasks('delete_chain', array[p_id]) t;
end;
comment on function pgrab.delete_chain(bigint) is
  'Deletes a task with everything below it; runs in progress are stopped. Returns the ids.';

-- DELETE on a table would give LOCK TABLE in any mode on it, too; on a view it gives none on what is below.
create or replace function pgrab_tool.tasks_delete() returns trigger
language plpgsql as $$
begin
  if not exists (select from pgrab.task t where t.id = old.id) then
    return null; -- it has ended: the history stays
  end if;
  perform pgrab.delete(old.id);
  return old;
end $$;
comment on function pgrab_tool.tasks_delete is 'Trigger: DELETE of pgrab.tasks is pgrab.delete().';
create trigger tasks_10_delete instead of delete on pgrab.tasks
  for each row execute function pgrab_tool.tasks_delete();

create or replace function pgrab.delete_edge(p_parent bigint, p_child bigint) returns boolean
language sql
return (pgrab_tool.call('delete_edge', p_ids => array[p_parent, p_child])).done;
comment on function pgrab.delete_edge(bigint, bigint) is
  'The child no longer waits for that parent. False: there was no such edge. A parent that is '
  'pgrab.task.parent_id: set that to null.';

create or replace function pgrab.delete_limit(p_key text) returns boolean
language sql
return (pgrab_tool.call('delete_limit', p_key)).done;
comment on function pgrab.delete_limit(text) is
  'Deletes a limit; tasks in line become due. False: there was none that the caller may delete.';

create or replace function pgrab.delete_calendar(p_name text) returns boolean
language sql
return (pgrab_tool.call('delete_calendar', p_name)).done;
comment on function pgrab.delete_calendar(text) is
  'Deletes a calendar that no task uses. False: there was none that the caller may delete.';

create or replace function pgrab.delete_blackout(p_name text) returns boolean
language sql
return (pgrab_tool.call('delete_blackout', p_name)).done;
comment on function pgrab.delete_blackout(text) is
  'Ends a blackout; what it held is let go. One that is on is over from now, and is deleted by another call, '
  'or in a month. False: there was none that the caller may delete.';

create or replace function pgrab.delete_calendar_day(p_calendar text, p_day date) returns boolean
language sql
return (pgrab_tool.call('delete_calendar_day', p_calendar, p_file => to_jsonb(p_day))).done;
comment on function pgrab.delete_calendar_day(text, date) is
  'The day is as its weekday says again. False: the calendar said nothing about it, or the caller may not '
  'change it.';

create or replace function pgrab.delete_alert(p_name text) returns boolean
language sql
return (pgrab_tool.call('delete_alert', p_name)).done;
comment on function pgrab.delete_alert(text) is
  'Deletes an alert. False: there was none that the caller may delete.';

create or replace function pgrab.delete_secret(p_name text) returns boolean
language sql
return (pgrab_tool.call('delete_secret', p_name)).done;
comment on function pgrab.delete_secret(text) is 'Deletes a secret of the caller. False: there was none.';

create or replace function pgrab.delete_token(p_name text) returns boolean
language sql
return (pgrab_tool.call('delete_token', p_name)).done;
comment on function pgrab.delete_token(text) is
  'Revokes at once the tokens of that name whose role the caller is a member of. False: there was none.';

create or replace function pgrab.undelete(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('undelete', pgrab_tool.ids_of(p_tasks, true)) $$;
comment on function pgrab.undelete(anycompatible) is
  'Inserts tasks that were deleted again, as they were last defined, with new ids: schedules are planned '
  'from now on, other tasks have the time that they had. Links of a chain come back together.';

create or replace function pgrab.drain(p_node text) returns setof pgrab.node
language sql
begin atomic
  select (c.node).* from pgrab_tool.call('drain', p_node) c;
end;
comment on function pgrab.drain(text) is
  'The node takes no new tasks, hands back what it has not started, and finishes what it runs. This lasts, '
  'even through a restart, until pgrab.undrain(). A node that has died is not reported as missing any more.';

create or replace function pgrab.undrain(p_node text) returns setof pgrab.node
language sql
begin atomic
  select (c.node).* from pgrab_tool.call('undrain', p_node) c;
end;
comment on function pgrab.undrain(text) is 'The node takes tasks again.';

create or replace function pgrab.pause_all(out paused boolean, out put_back bigint)
language sql
begin atomic
  select c.done, c.n from pgrab_tool.call('pause_all') c;
end;
comment on function pgrab.pause_all() is
  'No task is started after the commit, on any node, until pgrab.resume_all(); runs in progress continue. '
  'For maintenance, and after a copy of a production database was restored elsewhere. paused: false if all '
  'was paused already; put_back: how many tasks nodes had claimed and not started.';

create or replace function pgrab.resume_all() returns boolean
language sql
return (pgrab_tool.call('resume_all')).done;
comment on function pgrab.resume_all() is
  'Undoes pgrab.pause_all(). Fires that have become due meanwhile run as each task''s misfire says. Refused '
  'in a copy of a database: see pgrab.adopt(). False: nothing was paused.';

create or replace function pgrab.adopt() returns boolean
language sql
return (pgrab_tool.call('adopt')).done;
comment on function pgrab.adopt() is
  'Confirms that the tasks of this database, which is a copy or was restored elsewhere, may run here: until '
  'then nodes take nothing. False: there was nothing to confirm.';
