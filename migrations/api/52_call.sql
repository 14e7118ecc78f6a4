-- The functions of pgrab that people call.  Each goes through the view pgrab_internal.call (10_call.sql),
-- whose trigger calls 50_control.sql or 51_cluster.sql and writes down who did what.

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
comment on function pgrab.pause(text) is 'The same for a task given by its key or its name.';

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
comment on function pgrab.resume(text) is 'The same for a task given by its key or its name.';

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
comment on function pgrab.retry(text) is 'The same for a task given by its key or its name.';

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
comment on function pgrab.run_now(text) is 'The same for a task given by its key or its name.';

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
comment on function pgrab.cancel(text) is 'The same for a task given by its key or its name.';

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
comment on function pgrab.skip_next(text) is 'The same for a task given by its key or its name.';

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
comment on function pgrab.delete(text) is 'The same for a task given by its key or its name.';

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
