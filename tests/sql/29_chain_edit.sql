-- What people do to chains: new links, schedules, cancel, delete.
begin;
\ir chain.inc
select plan(35);
set local timezone = 'UTC';

-- cancel of a root that runs once: what runs is asked to stop, the rest ends
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 1), (4, 'noop', 3);
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (5, 'noop', 4, 'always');
select pg_temp.ends(1);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 2;
select pgrab.cancel(1);
select is(pg_temp.chain(), '1+ 2r 3x 4x 5x', 'cancel of a root');
select is((select task_id from pgrab.cancel_request), 2::bigint, 'asks for the run to be stopped');
select pgrab_internal.finish((array[2], array[7], array[11], array[1], array[0], array['failed'], null, null,
  null, array['stopped'], null, null)::pgrab_internal.outcomes, 1, 'n');
select is(pg_temp.chain() || (select count(*) from pgrab.cancel_request), 'gone0',
  'and when that has ended the chain has');
select is((select result from pgrab.chain_runs), 'cancelled', 'it was cancelled');
select pg_temp.fresh();

-- an upsert that only updates
insert into pgrab.task (id, key, kind, schedule) overriding system value values
  (1, 'root', 'noop', '@every 1s');
insert into pgrab.task (id, key, kind, parent_id) overriding system value values (2, 'link', 'noop', 1);
select pg_temp.ends(1);
insert into pgrab.task (id, key, kind, parent_id) overriding system value values
  (9, 'link', 'noop', 1)
on conflict (key) do update set name = 'again';
insert into pgrab.task (id, key, kind, parent_id) overriding system value values
  (9, 'link', 'noop', 1)
on conflict do nothing;
select is((select name from pgrab.task where id = 2) || (select count(*) from pgrab.edge_change), 'again0',
  'adds no edge');
select pg_temp.fresh();

-- a schedule that is taken away
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select pg_temp.ends(1);
update pgrab.task set schedule = null where id = 1;
select pg_temp.ends(2);
select is(pg_temp.outcomes(), '1 succeeded done, 2 succeeded done',
  'a schedule taken away under way: what has ended has ended for good');
select pg_temp.fresh();

-- delete_chain of what has begun
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (8, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 2), (9, 'noop', 8);
insert into pgrab.edge values (8, 2, 'always');
select pg_temp.ends(1);
select throws_ok('update pgrab.task set schedule = ''@daily'' where id = 8', '22023',
  'task schedule cannot be ''@daily''', 'a chain that has begun gets no schedule');
select results_eq('select pgrab.delete_chain(1)', 'values (2::bigint), (3)',
  'delete_chain of a root that has left');
select is(pg_temp.chain(), '1+ 2x 3x 8! 9.', 'takes what hangs below it');
select throws_ok('select pgrab.delete_chain(4711)', 'P0002', 'task 4711 does not exist');
select pg_temp.fresh();

-- deleting from the middle
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 2), (4, 'noop', 1);
insert into pgrab.edge values (4, 3);
select pg_temp.ends(1); select pg_temp.ends(4);
select is((select count(*) from pgrab.delete_chain(2)), 2::bigint,
  'delete_chain of what a recurring chain still waits for');
select is(pg_temp.chain() || (select pending from pgrab.chain) || (select count(*) from pgrab.edge),
  '1! 4.20', 'ends its run');
select count(*) from pgrab.delete_chain(1);
select is(pg_temp.chain() || (select count(*) from pgrab.chain), 'gone0', 'and of all of it');
select pg_temp.fresh();

-- a link that the run under way still needs, though the graph has changed meanwhile
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 2), (4, 'noop', 1);
insert into pgrab.edge values (4, 3);
select pg_temp.ends(1);
update pgrab.task set parent_id = 1 where id = 3;
delete from pgrab.edge where child_id = 3;
select throws_ok('delete from pgrab.task where id = 2', '23503',
  'task 2 cannot be deleted: task 3 waits for it in the current run');
select throws_ok('select pgrab.delete_chain(4)', '23503',
  'task 4 cannot be deleted: task 3 waits for it in the current run');
select pg_temp.ends(2);
select lives_ok('delete from pgrab.task where id = 2', 'not once it has ended');
select is(pg_temp.ends(4), '1+ 3! 4+', 'and the run goes on');
select is((select verdict || ': ' || detail from pgrab.explain(1) where gate = 'chain'),
  'waits: Its chain is running, and fires again when the run has ended: 1 of its links have not (#3).',
  'explain says what the root waits for');
select is(pg_temp.ends(3), '1! 3. 4.', 'to its end');
select lives_ok('delete from pgrab.task where id = 4', 'between two runs everything may go');
select pg_temp.fresh();

-- who is cancelled while he waits has the planned time of the run
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1h');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select count(*) from pgrab.run_now(1);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 1;
select count(*) from pgrab.cancel(1);
select is((select fire_at from pgrab.run where task_id = 2), (select fire_at from pgrab.task where id = 1),
  'a waiting link is cancelled as part of the run');
select pg_temp.fresh();

-- a task that is deleted while it runs
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop'), (3, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 3);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1,
  started_at = now()
where id < 4;
delete from pgrab.task where id = 1;
select is((select count(*) from pgrab.delete_chain(3)), 2::bigint, 'delete_chain, too');
select is((select string_agg(task_id || ' ' || version || ' ' || incarnation, ', ' order by task_id)
    from pgrab.cancel_request), '1 7 11, 3 7 11', 'its run is to be stopped');
select is(pg_temp.outcomes(), '1 cancelled cancelled, 3 cancelled cancelled, 4 cancelled cancelled',
  'and is on record as cancelled');
select is((select count(*) from pgrab_internal.finish((array[1, 2, 3], array[7, 7, 7], array[11, 11, 11],
      array[1, 1, 1], array[0, 0, 0], array['failed', 'succeeded', 'failed'], null, null, null, null,
      null, null)::pgrab_internal.outcomes, 1, 'n')),
  1::bigint, 'its end is nobody''s');
select is((select count(*) from pgrab.cancel_request), 0::bigint, 'and takes the wish away');
select is(pg_temp.outcomes(),
  '1 cancelled cancelled, 2 succeeded done, 3 cancelled cancelled, 4 cancelled cancelled',
  'a finish is no delete');
select pg_temp.fresh();

-- a parent goes together with its child, which runs: what is kept of the child has the edge between them
create function pg_temp.family() returns void language sql as $$
  insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
  insert into pgrab.task (id, kind, parent_id) overriding system value values
    (2, 'noop', 1), (3, 'noop', 1), (4, 'noop', 2);
  insert into pgrab.edge values (3, 4);
  select pg_temp.ends(1); select pg_temp.ends(2); select pg_temp.ends(3);
  update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1,
    started_at = now() where id = 4
$$;
select pg_temp.family();
select count(*) from pgrab.delete(array[3, 4]);
select is((select definition -> 'parents' from pgrab.run where task_id = 4),
  '[{"run_if": "success", "parent_id": 3}]', 'of pgrab.delete()');
select pg_temp.fresh();
select pg_temp.family();
delete from pgrab.task where id in (3, 4);
select is((select definition -> 'parents' from pgrab.run where task_id = 4),
  '[{"run_if": "success", "parent_id": 3}]', 'and of a DELETE');
select pg_temp.fresh();

-- by somebody who was given the tables and nothing else
create role pgrab_test_builder;
grant pgrab_test_builder to current_user;
grant usage on schema pgrab, pgrab_internal to pgrab_test_builder;
grant select, insert on pgrab.lane to pgrab_test_builder;
grant select, insert, update, delete on pgrab.task, pgrab.edge, pgrab.edge_change, pgrab.chain
  to pgrab_test_builder;
grant select, update on pgrab.run to pgrab_test_builder;
grant select on pgrab.node, pgrab.kind, pgrab.limit to pgrab_test_builder;
grant usage on sequence pgrab.chain_run_seq to pgrab_test_builder;
set local role pgrab_test_builder;
insert into pgrab.task (id, kind, run_at) overriding system value values
  (1, 'noop', '2099-01-01'), (2, 'noop', '2099-01-01');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
insert into pgrab.edge values (2, 3);
update pgrab.task set parent_id = null where id = 3;
delete from pgrab.edge;
update pgrab.task set parent_id = 1 where id = 3;
delete from pgrab.task where id = 3;
insert into pgrab.task (id, kind, schedule) overriding system value values (11, 'noop', '@every 1h');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (12, 'noop', 11), (13, 'noop', 12), (14, 'noop', 11);
insert into pgrab.edge values (14, 13);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 11;
delete from pgrab.edge;
update pgrab.task set parent_id = 11 where id = 13;
insert into pgrab.task (id, kind, parent_id) overriding system value values (15, 'noop', 14);
delete from pgrab.task where id = 15;
update pgrab.task set schedule = null where id = 11;
reset role;
select is(pg_temp.chain(), '1! 2! 11r 12. 13. 14.',
  'chains can be built, edited and taken down without owning the schema');
drop owned by pgrab_test_builder;
select pg_temp.fresh();

-- a delete leaves a trace, or is refused, whatever its session has set
insert into pgrab.task (id, kind) overriding system value values (901, 'noop');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 901;
set local pgrab.link_ends = 'x';
select throws_ok('delete from pgrab.task where id = 901',
  'a task cannot be deleted while pgrab.link_ends is set: the setting is pgrab''s own');
set local pgrab.link_ends = '';
delete from pgrab.task where id = 901;
select is((select e.what from pgrab.event e where e.task_id = 901), 'delete', 'an event');
select is((select count(*) from pgrab.cancel_request c where c.task_id = 901), 1::bigint,
  'and the run is stopped');
-- who deletes is asked for each statement, also for one whose plan is kept
insert into pgrab.task (id, kind) overriding system value values (902, 'noop'), (903, 'noop');
prepare gone(bigint) as delete from pgrab.task where id = $1;
select pgrab_internal.link_ends('on');
execute gone(902);
select pgrab_internal.link_ends('');
execute gone(903);
select is(array(select e.task_id from pgrab.event e where e.task_id in (902, 903)), '{903}'::bigint[],
  'a user after the system, with the same statement');
deallocate gone;
select is((select p.provolatile from pg_proc p where p.oid = 'pgrab_internal.by_person'::regproc),
  'i'::"char", 'and it is asked once, not for each row');

select * from finish();
rollback;
