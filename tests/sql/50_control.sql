-- What a person does to tasks: pause, resume, retry, run_now.
begin;
select plan(62);

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
select throws_ok('select pgrab.retry(null)', '22004', 'a task is null');
select throws_ok('select pgrab.retry(array[null::text])', '22004', 'a task is null');
select throws_ok('select pgrab.retry(now())', '22023', 'a value of type timestamp with time zone is no task');
select is((select count(*) from pgrab.pause(array[1003::int2, 1001])), 2::bigint, 'small numbers will do');
select is((select count(*) from pgrab.resume(array['1003', '1001'])), 2::bigint, 'and an array of words');
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
insert into pgrab.cancel_request (task_id, version, incarnation) values (1005, 9, 1);
select results_eq('select id, node_id, incarnation, paused from pgrab.resume(1005)',
  'values (1005::bigint, 1::bigint, 1::bigint, false)', 'and so does resuming it');
select is((select count(*) from pgrab.cancel_request where task_id = 1005), 1::bigint,
  'a run that was asked to stop still is');
delete from pgrab.cancel_request;

-- all or nothing
select throws_ok('select pgrab.run_now(array[1001, 1005])', '55000', 'task 1005 is running');
select is((select run_at > now() from pgrab.task where id = 1001), true, 'a refused call has done nothing');
-- many at once: each row is written once, and the checks of an edit are not asked
insert into pgrab.task (id, kind, run_at, jitter) overriding system value
select i, 'noop', now() + interval '1 day', case i % 2 when 0 then '1 hour' else '0' end::interval
from generate_series(2001, 2100) i;
create temp table planned as select id, due_at, version from pgrab.task where id between 2001 and 2100;
create function pg_temp.written() returns bigint language sql as $$
  select pg_stat_get_xact_tuples_updated('pgrab.task'::regclass) $$;
select pg_temp.written() as before \gset
select is((select count(*) from pgrab.pause(array(select id from planned))), 100::bigint, 'pause of many');
select is(pg_temp.written() - :before, 100::bigint, 'a pause writes each row once');
select is((select count(*) from pgrab.task t join planned p using (id)
  where t.paused and t.due_at is null and t.version = p.version + 1), 100::bigint,
  'all of them are paused, with a new version');
select is((select count(*) from pgrab.resume(array(select id from planned))), 100::bigint, 'resume of many');
select is(pg_temp.written() - :before, 200::bigint, 'a resume writes each row once');
select is((select count(*) from pgrab.task t join planned p using (id)
  where not t.paused and t.due_at = p.due_at and t.version = p.version + 2), 100::bigint,
  'resumed they are due as planned, jitter and all');

select is((select count(*) from pgrab.pause('{}'::bigint[])), 0::bigint, 'no ids, nothing to do');
select is((select count(*) from pgrab.run_now(array[1001, 1001])), 1::bigint,
  'an id that stands twice counts once');

-- delete, of tasks that wait for each other; and undelete
create function pg_temp.chain() returns void language sql as $$
  select pgrab.apply('{"source": "c", "tasks": [
    {"key": "root", "kind": "shell", "command": "echo 1", "schedule": "0 3 * * *", "priority": 3},
    {"key": "left", "kind": "noop", "parents": ["root"]},
    {"key": "right", "kind": "noop", "parents": ["root"]},
    {"key": "both", "kind": "noop", "parents": ["left", "right"], "run_if": "always"}]}');
$$;
select pg_temp.chain();
create function pg_temp.hint(p_statement text) returns text language plpgsql as $$
declare
  v_hint text;
begin
  execute p_statement;
exception when others then
  get stacked diagnostics v_hint = pg_exception_hint;
  return v_hint;
end $$;
select is(pg_temp.hint($$select pgrab.retry('left')$$),
  'It is a link of a chain, which starts it; pgrab.explain(id) says what it waits for.',
  'a link that waits for its parents is not to be retried');
select is(pg_temp.hint($$select pgrab.retry('left')$$), pg_temp.hint($$select pgrab.run_now('left')$$),
  'nor to be run now');
select is(pg_temp.hint($$select pgrab.retry('root')$$),
  'Only parked tasks are retried; pgrab.run_now(id) makes this one due at once.', 'as its root may be');
select throws_ok($$select pgrab.delete('{root,both}'::text[])$$, '23503');
select is((select count(*) from pgrab.delete('{root,left,right,both}'::text[])), 4::bigint,
  'a chain is deleted as a whole, in any order');
select is((select count(*) from pgrab.chain), 0::bigint, 'and nothing of it is left');
select is((select count(*) from pgrab.edge), 0::bigint, 'no edge either');
create temporary table was as
select x.task_id as id, x.key from pgrab.run x where x.key in ('root', 'left', 'right', 'both');
select throws_ok(format('select pgrab.undelete(%s)', (select id from was where key = 'left')), '55000');
select is((select count(*) from pgrab.undelete(array(select id from was))), 4::bigint, 'and comes back');
select results_eq($$select key, command, schedule, priority::integer, source,
    schedule is null or fire_at > now()
  from pgrab.task where source = 'c' order by id$$,
  $$values ('root', 'echo 1', '0 3 * * *', 3, 'c', true), ('left', '', null, 0, 'c', true),
    ('right', '', null, 0, 'c', true), ('both', '', null, 0, 'c', true)$$, 'as it was');
select is((select count(*) from pgrab.edge), 1::bigint, 'with its edges');
select is((select what from pgrab.event where what = 'undelete' limit 1), 'undelete', 'which is recorded');
select throws_ok($$select pgrab.undelete('root')$$, '55000', null, 'what is live is not deleted');

insert into pgrab.task (key, kind, run_at) values ('once', 'noop', '2099-01-01');
select pgrab.delete('once');
select is((select run_at from pgrab.undelete('once')), '2099-01-01'::timestamptz, 'its time comes back, too');
insert into pgrab.task (key, kind, schedule) values ('by sql', 'noop', '@daily');
delete from pgrab.task where key = 'by sql';
select is((select schedule from pgrab.undelete('by sql')), '@daily', 'what a DELETE took comes back');
select throws_ok('select pgrab.undelete(4711)', '55000', null, 'what has ended was not deleted');
select throws_ok('select pgrab.undelete(4712)', 'P0002', null, 'and of others nothing is kept');
insert into pgrab.task (id, key, kind, run_at) overriding system value values
  (31, 'child', 'noop', '2099-01-01'), (32, 'parent', 'noop', '2099-01-01');
insert into pgrab.edge (parent_id, child_id) values (32, 31);
select pgrab.delete(array[31, 32]);
select is((select count(*) from pgrab.undelete(array[31, 32])), 2::bigint,
  'a child comes back with a parent that was made after it');
select is((select array_agg(p.key || ' ' || c.key) from pgrab.edge e join pgrab.task p on p.id = e.parent_id
    join pgrab.task c on c.id = e.child_id where c.key = 'child'), array['parent child'],
  'and is its child again');
select pgrab.delete('{parent,child}'::text[]);

-- what delete_chain takes
select is((select count(*) from pgrab.delete_chain(pgrab_tool.id_of('root'))), 4::bigint,
  'a chain by its root');
select is((select count(*) from pgrab.undelete(array(
    select pgrab_tool.defined_id(k) from unnest('{root,left,right,both}'::text[]) k))), 4::bigint,
  'comes back');
select is((select count(*) from pgrab.chain), 1::bigint, 'as one chain');

select * from finish();
rollback;
