-- The functions that people call: each does what it says, and writes down who did it to what.
begin;
\ir nodes.inc
select plan(21);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
values ('n1', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 11, 'up', now());
insert into pgrab.task (id, key, name, kind, run_at, schedule) overriding system value values
  (1, 'one', null, 'noop', '2099-01-01', null), (2, 'two', 'second', 'noop', '2099-01-01', '@daily'),
  (3, 'three', null, 'noop', '2099-01-01', null), (4, 'four', null, 'noop', '2099-01-01', null);
insert into pgrab.task (id, key, kind, parent_id) overriding system value values (5, 'five', 'noop', 4);
update pgrab.task set status = 'parked', due_at = null where id = 3;

-- What has been written down since it was asked last.
create function pg_temp.events() returns text language sql as $$
  with e as (delete from pgrab.event returning at, what, role, task_id, task)
  select string_agg(concat_ws(' ', e.what, e.task_id, e.task), ', ' order by e.at, e.task_id) from e
  where e.role = current_user
$$;
select pg_temp.events();

-- -------------------------------------------------------------------------------------------------- tasks
select pgrab.pause(array[1, 2]);
select is(pg_temp.events(), 'pause 1 one, pause 2 second', 'pause: a line for each task, by its name or key');
select pgrab.pause(1);
select is(pg_temp.events(), null, 'what changes nothing is not written down');
select pgrab.resume('one'), pgrab.resume(2);
select is(pg_temp.events(), 'resume 1 one, resume 2 second', 'resume');
select pgrab.retry('three');
select is(pg_temp.events(), 'retry 3 three', 'retry');
select pgrab.run_now(3);
select is(pg_temp.events(), 'run_now 3 three', 'run_now');
select pgrab.skip_next('second');
select is(pg_temp.events(), 'skip_next 2 second', 'skip_next');
select pgrab.cancel(3);
select is(pg_temp.events(), 'cancel 3 three', 'cancel, though its task is gone');
select pgrab.delete('one');
select is(pg_temp.events(), 'delete 1 one', 'delete is one line, not one of the function and one of the row');
select pgrab.delete_chain(4);
select is(pg_temp.events(), 'delete_chain 4 four, delete_chain 5 five', 'delete_chain: a line for each link');

-- ------------------------------------------------------------------------------------ nodes and the cluster
select pgrab.drain('n1');
select is(pg_temp.events(), 'drain n1', 'drain');
select pgrab.undrain('n1');
select is(pg_temp.events(), 'undrain n1', 'undrain');
select pgrab.pause_all();
select is(pg_temp.events(), 'pause_all', 'pause_all');
select pgrab.adopt();
select is(pg_temp.events(), 'resume_all', 'adopt is a resume_all');

-- ------------------------------------------------------------------------------------ what is refused as one
select throws_ok('select pgrab.pause(array[2, 4711])', 'P0002', 'task 4711 does not exist');
select is((select t.paused from pgrab.task t where t.id = 2), false, 'all or nothing');
select is(pg_temp.events(), null, 'and nothing is written down');
select throws_ok('select pgrab.pause(array_fill(2::bigint, array[500001]))', '54000', '500001 tasks at once');
select throws_ok('select pgrab.pause(''nobody'')', 'P0002', 'no task has the key or name ''nobody''');

-- ----------------------------------------------------------------------------------------------- who acts
create role pgrab_test_caller;
grant pgrab_test_caller to current_user;
grant usage on schema pgrab, pgrab_tool to pgrab_test_caller;
grant select on all tables in schema pgrab to pgrab_test_caller;
grant execute on all functions in schema pgrab, pgrab_tool to pgrab_test_caller;
grant insert, select on pgrab_internal.call to pgrab_test_caller;
set local role pgrab_test_caller;
select lives_ok('select pgrab.pause(2)', 'whoever may call needs no right on a table');
select throws_ok('select pgrab_internal.pause(array[2], ''pause'', ''somebody'')', '42501', null,
  'nor gets to what is internal');
reset role;
select is((select e.role from pgrab.event e where e.what = 'pause'), 'pgrab_test_caller',
  'it is he who acts, not who owns the function');

select * from finish();
rollback;
