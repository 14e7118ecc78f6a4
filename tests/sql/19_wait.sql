-- Who waits for a signal, until when, and how the door asks for it.
begin;
select plan(17);
set local timezone = 'UTC';
\ir chain.inc

select ok(pgrab_internal.waits_outside('waiting', null, null, null), 'a task on its own that waits');
select ok(pgrab_internal.waits_outside('waiting', 1, 0, null), 'a link whose parents have ended');
select ok(not pgrab_internal.waits_outside('waiting', 1, 1, null), 'not one that waits for a parent');
select ok(not pgrab_internal.waits_outside('waiting', 1, null, null),
  'nor one that takes no part in the run');
select ok(not pgrab_internal.waits_outside('scheduled', null, null, null), 'nor what is planned');
select ok(not pgrab_internal.waits_outside('waiting', null, null, 11), 'nor what waits for an answer');

-- parents first, then the signal; the signal may come before them
insert into pgrab.task (id, kind, parent_id, wait_for) overriding system value
values (1, 'noop', null, null), (2, 'noop', 1, 'go'), (3, 'noop', 2, null);
select pgrab.signal(2, 'go');
select is(pg_temp.chain(), '1! 2. 3.', 'a signal alone does not start a link');
select pg_temp.ends(1);
select is(pg_temp.chain(), '1+ 2! 3.', 'the end of its parents does, when the signal has come');
select is_empty('select from pgrab.wait', 'it has not waited');

-- a recurring chain whose root and link wait
select pg_temp.fresh();
insert into pgrab.task (id, kind, schedule, parent_id, wait_for) overriding system value
values (10, 'noop', '@daily', null, 'go'), (11, 'noop', null, 10, 'yes');
select ok(not pgrab_internal.chain_under_way((select chain from pgrab.task where id = 10)),
  'a chain whose root waits for its signal is not under way');
select pgrab.signal(10, 'go');
select pg_temp.ends(10);
select is(pg_temp.chain(), '10+ 11.', 'its link waits');
select throws_like($$select pgrab.signal(10, 'go')$$, 'task 10 is done', 'what has ended gets no signal');
select pgrab.signal(11, 'yes');
select pg_temp.ends(11);
select is(pg_temp.chain(), '10. 11.', 'the next run begins with nothing');
select is((select array_agg(task_id) from pgrab.wait), '{10}', 'and its root waits again');
select is_empty('select from pgrab.signal', 'for signals of its own');

-- a parent that is added to a task that waits for its signal
select pg_temp.fresh();
insert into pgrab.task (id, kind, wait_for, wait_timeout) overriding system value
values (20, 'noop', null, null), (21, 'noop', 'go', '1 hour');
insert into pgrab.edge (parent_id, child_id) values (20, 21);
select is_empty('select from pgrab.wait', 'it waits for its parent, and its time does not run');
select pg_temp.ends(20);
select is((select array_agg(task_id) from pgrab.wait), '{21}', 'then for the signal');
select * from finish();
rollback;
