-- A chain's run: how it begins, how it ends, and the next one.
begin;
\ir chain.inc
select plan(30);
set local timezone = 'UTC';

-- a chain with a schedule
insert into pgrab.task (id, kind, schedule, run_at) overriding system value values
  (1, 'noop', '0 * * * *', '2026-01-01 10:00Z');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 2);
select is(pg_temp.ends(1), '1+ 2! 3.', 'the root is not armed before its chain has ended');
select is((select fire_at from pgrab.task where id = 2), '2026-01-01 10:00Z',
  'all of it has one planned time');
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 2);
delete from pgrab.task where id = 3;
select is(pg_temp.ends(2), '1! 2. 4.', 'a new link joins at the next firing, and the root is armed');
select is((select fire_at from pgrab.task where id = 1), '2026-01-01 11:00Z', 'for its next time');
select is((select root || ' ' || pending from pgrab.chain), '1 3', 'with the new link');
select isnt((select chain_id from pgrab.chain), (select max(chain_id) from pgrab.run), 'under a new number');
select pg_temp.ends(1);
update pgrab.task set parent_id = 1 where id = 4;
select is(pg_temp.ends(2, 'failed'), '1! 2. 4.',
  'a link that failed skips those below it by the graph the run began with, and the schedule goes on');
select is((select string_agg(outcome, ',' order by finished_at) from pgrab.run where task_id = 4), 'skipped',
  'as recorded');
select pg_temp.ends(1);
select is(pg_temp.chain(), '1+ 2! 4!', 'the edge that was moved counts now');
select is((select string_agg(status, ',') from pgrab.cancel(1)), 'cancelled', 'cancel of the root');
select is(pg_temp.chain(), '1! 2. 4.', 'stops the whole run of the chain, and not the schedule');
select is((select string_agg(outcome, ',' order by task_id) from pgrab.run
    where fire_at = '2026-01-01 12:00Z' and task_id <> 1), 'cancelled,cancelled', 'recorded as cancelled');
select throws_ok('insert into pgrab.edge values ((select id from pgrab.task where id = 4), 1)', '22023',
  'task 4 cannot be a parent of task 1: the child has a schedule');
insert into pgrab.task (id, kind) overriding system value values (9, 'noop');
select throws_ok('insert into pgrab.edge values (9, 2)', '22023',
  'task 9 cannot be a parent of task 2: the chain has a schedule and would have two roots');
delete from pgrab.task where id = 9;
update pgrab.task set max_runs = fires + 1 where id = 1;
select pg_temp.ends(1); select pg_temp.ends(2);
select is(pg_temp.ends(4), 'gone', 'with the last fire of the schedule all of it leaves');
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.tasks where id < 5),
  '1 done, 2 done, 4 done', 'and can be looked up');
select pg_temp.fresh();

-- a firing that a person skips, or asks for
insert into pgrab.task (id, kind, schedule, run_at) overriding system value values
  (1, 'noop', '0 * * * *', '2100-01-01 10:00Z');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select pgrab.skip_next(1);
select is((select result || ' ' || links from pgrab.chain_runs), 'skipped 1',
  'a firing that was skipped is a run in which nothing ran');
select pgrab.run_now(1);
select pg_temp.ends(1);
select is((select c.fire_at = p.fire_at and p.fire_at <= clock_timestamp() from pgrab.task c, pgrab.task p
    where c.id = 2 and p.id = 1), true, 'a link has the planned time of this firing');
select throws_ok('delete from pgrab.task where id = 1', '23503',
  'task 1 cannot be deleted: other tasks wait for it');
select is((select count(distinct chain_id) from pgrab.run), 2::bigint, 'each firing has a number of its own');
delete from pgrab.task where id in (1, 2);
select is(pg_temp.chain() || (select count(*) from pgrab.chain), 'gone0', 'all of it may be deleted at once');
select pg_temp.fresh();

-- what came while the chain ran, and has nothing to do with it any more
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select pg_temp.ends(1);
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (3, 'noop', 1), (4, 'noop', 3), (5, 'noop', 2);
update pgrab.task set parent_id = null where id = 3;
select is(pg_temp.chain(), '1+ 2! 3! 4. 5.', 'begins at once');
select is(pg_temp.ends(3), '1+ 2! 3+ 4! 5.', 'as a chain of its own');
select pg_temp.ends(4);
insert into pgrab.task (id, kind, run_at) overriding system value values (6, 'noop', '2100-01-01');
insert into pgrab.task (id, kind, parent_id) overriding system value values (7, 'noop', 6);
insert into pgrab.edge values (2, 6);
select is(pg_temp.chain(), '1+ 2! 5. 6. 7.', 'a task with what is below it comes into a chain that runs');
select is(pg_temp.ends(2), '1! 2. 5. 6. 7.', 'which does not wait for it in this run');
select is((select pending from pgrab.chain), 5, 'but in the next');
select pg_temp.fresh();

-- a link that comes in the last run
insert into pgrab.task (id, kind, schedule, max_runs) overriding system value values
  (1, 'noop', '@every 1s', 1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select pg_temp.ends(1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
select is(pg_temp.ends(2), 'gone', 'a link that came in the last run leaves with the chain');
select is(pg_temp.outcomes(), '1 succeeded done, 2 succeeded done, 3 skipped skipped',
  'and that is on record');
select pg_temp.fresh();

-- parked because its end could not be recorded
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values
  (2, 'noop', 1, 'failure'), (3, 'noop', 1, 'success');
update pgrab.task set status = 'running', node_id = 1, incarnation = 11 where id = 1;
select pgrab_internal.park(1, version, 11, 'succeeded', 'why', 'n1', true) from pgrab.task where id = 1;
select is(pg_temp.chain(), '1- 2! 3o', 'a link that was parked without a finish sets its chain going');
select pg_temp.fresh();

-- the last two end at the same moment, and neither sees it
insert into pgrab.chain (root) values (null);
select count(*) from pgrab.upkeep();
select is((select count(*) from pgrab.chain), 0::bigint, 'upkeep finds chains that nobody ended');

select * from finish();
rollback;
