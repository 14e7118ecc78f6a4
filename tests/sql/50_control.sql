-- What a person does to tasks: pause, resume, retry, run_now.
begin;
select plan(27);

insert into pgrab.task (id, kind, run_at) overriding system value
select i, 'noop', now() + interval '1 hour' from generate_series(1001, 1005) i;

select results_eq('select id from pgrab.pause(1001)', 'values (1001::bigint)',
  'pause returns what it changed');
select is((select due_at is null from pgrab.task where id = 1001), true, 'a paused task is not due');
select is((select count(*) from pgrab.pause(array[1001, 1002])), 1::bigint,
  'pausing twice changes nothing twice');
select results_eq('select id from pgrab.resume(array[1001, 1002]) order by 1',
  'values (1001::bigint), (1002::bigint)', 'resume takes arrays');
select is((select due_at = fire_at from pgrab.task where id = 1001), true,
  'a resumed task is due as planned');

select throws_ok('select pgrab.pause(99999)', 'P0002', 'task 99999 does not exist');
select throws_ok('select pgrab.resume(array[1001, 99999])', 'P0002', 'task 99999 does not exist');
select throws_ok('select pgrab.retry(null::bigint)', '22004', 'cannot retry: an id is null');
select throws_ok('select pgrab.retry(null::bigint[])', '22004', 'cannot retry: an id is null');
insert into pgrab.run (task_id, attempt, version, finished_at, created_at, outcome, ended, kind, owner) values
  (4711, 1, 1, now(), now(), 'succeeded', 'done', 'noop', 'o');
select throws_ok('select pgrab.run_now(4711)', 'P0002', 'task 4711 has ended: done');

-- parked
update pgrab.task set status = 'parked', due_at = null, attempt = 3, last_error = 'no' where id = 1003;
select throws_ok('select pgrab.run_now(1003)', '55000', 'task 1003 is parked');
select results_eq('select id, status, attempt from pgrab.retry(1003)',
  $$values (1003::bigint, 'scheduled', 0)$$, 'retry gives all attempts anew');
select is((select due_at <= clock_timestamp() and fire_at > now() from pgrab.task where id = 1003), true,
  'due at once, the planned time stays');
select throws_ok('select pgrab.retry(1003)', '55000', 'task 1003 is scheduled');
update pgrab.task set status = 'parked', due_at = null where id = 1003;
update pgrab.task set paused = true where id = 1003;
select is((select due_at from pgrab.retry(1003)), null,
  'a parked and paused task waits for resume after retry');
select throws_ok('select pgrab.run_now(1003)', '55000', 'task 1003 is paused');
select is((select count(*) from pgrab.resume(1003)), 1::bigint, 'and resume lets it go');
select isnt((select due_at from pgrab.task where id = 1003), null, 'due again');

-- run_now
select is((select run_at <= clock_timestamp() and due_at = run_at and fire_at = run_at
    from pgrab.run_now(1004)), true, 'run_now makes it due');
update pgrab.task set status = 'claimed', version = 7, node_id = 1, incarnation = 1 where id = 1005;
select results_eq('select id, status, version from pgrab.run_now(1005)',
  $$values (1005::bigint, 'scheduled', 8::bigint)$$, 'a claimed task goes back and is planned anew');
update pgrab.task set status = 'running', version = 9, node_id = 1, incarnation = 1 where id = 1005;
select throws_ok('select pgrab.run_now(1005)', '55000', 'task 1005 is running');
select throws_ok('select pgrab.retry(1005)', '55000', 'task 1005 is running');
select results_eq('select id, status, version, paused from pgrab.pause(1005)',
  $$values (1005::bigint, 'running', 9::bigint, true)$$, 'pausing a running task leaves its run alone');

-- all or nothing
select throws_ok('select pgrab.run_now(array[1001, 1005])', '55000', 'task 1005 is running');
select is((select run_at > now() from pgrab.task where id = 1001), true, 'a refused call has done nothing');
select is((select count(*) from pgrab.pause('{}'::bigint[])), 0::bigint, 'no ids, nothing to do');
select is((select count(*) from pgrab.run_now(array[1001, 1001])), 1::bigint,
  'an id that stands twice counts once');

select * from finish();
rollback;
