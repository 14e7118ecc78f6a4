-- Who acts, and what is written down of it.
begin;
select plan(11);
insert into pgrab.task (id, kind, run_at) overriding system value values
  (1, 'noop', '2099-01-01'), (2, 'noop', '2099-01-01');
select setval(pg_get_serial_sequence('pgrab.task', 'id'), 100);

-- ----------------------------------------------------------------------------------------------- who acts
select is(pgrab_internal.call_verb(), null, 'nobody has called');
select set_config('pgrab.call', (select value from pgrab_internal.key where name = 'call') || 'pause', true);
select is(pgrab_internal.call_verb(), 'pause', 'who knows the word says what has been called');
select set_config('pgrab.call', 'pause', true), set_config('pgrab.caller', 'forged', true);
update pgrab.task set priority = 3 where id = 1;
select is((select (what, role)::text from pgrab.event where task_id = 1), format('(edit,%s)', current_user),
  'a setting that somebody makes himself says nothing');
select is((select detail from pgrab.event where task_id = 1), '{"priority": ["0", "3"]}',
  'an edit says what has changed');
select count(*) from pgrab.pause(array[1, 2]);
select is((select count(*) from pgrab.event where what = 'pause' and task_id in (1, 2)), 2::bigint,
  'each task that is paused');
delete from pgrab.task where id = 2;
select is((select count(*) from pgrab.event where what = 'delete' and task_id = 2), 1::bigint, 'a delete');
insert into pgrab.task (kind) select 'noop' from generate_series(1, 10);
insert into pgrab.task (id, kind, schedule) overriding system value values (1003, 'noop', '@daily');
select is((select array_agg(task_id) from pgrab.event where what = 'insert'), array[1003::bigint],
  'of inserts only schedules');

-- ---------------------------------------------------------------------------------- what an edit has changed
select is(pgrab_internal.edits('{"name": "a", "priority": 1}', '{"name": "b", "priority": 1}'),
  '{"name": ["a", "b"]}', 'the columns that differ');
select is(pgrab_internal.edits('{"version": 1, "due_at": "x"}', '{"version": 2, "due_at": "y"}'), null,
  'but not what the system writes');
select is(pgrab_internal.edits('{}', jsonb_build_object('command', repeat('é', 1000))) #>> '{command,1}',
  repeat('é', 200), 'of each value as much as says what it was');
select is(pgrab_internal.edits('{"args": {"a": 1}, "name": null}', '{"args": {"a": 2}, "name": "x"}'),
  '{"args": ["{\"a\": 1}", "{\"a\": 2}"], "name": [null, "x"]}', 'JSON as text');

select * from finish();
rollback;
