-- What the end of a link sets in motion.
begin;
\ir chain.inc
select plan(55);
set local timezone = 'UTC';

-- a line, and its conditions
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values
  (2, 'noop', 1, 'success'), (3, 'noop', 1, 'failure'), (4, 'noop', 1, 'always'), (5, 'noop', 3, 'always'),
  (6, 'noop', 2, 'success');
select is(pg_temp.ends(2), 'not due', 'a child waits');
select is(pg_temp.ends(1), '1+ 2! 3o 4! 5o 6.',
  'a success starts success and always; failure is skipped, and what hangs on it alone');
select is(pg_temp.ends(4), '1+ 2! 3o 4+ 5o 6.', 'an end that starts nothing');
select is(pg_temp.ends(2), '1+ 2+ 3o 4+ 5o 6!', 'the next in line');
select is(pg_temp.ends(6), 'gone', 'with its last link the chain leaves');
select is(pg_temp.outcomes(),
  '1 succeeded done, 2 succeeded done, 3 skipped skipped, 4 succeeded done, 5 skipped skipped, '
    '6 succeeded done',
  'everything is in the history');
select is((select count(distinct chain_id) || ' ' || count(chain_id) from pgrab.run), '1 6',
  'under one number');
select is((select count(*) from pgrab.chain), 0::bigint, 'and no chain is left');
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.tasks),
  '1 done, 2 done, 3 skipped, 4 done, 5 skipped, 6 done', 'pgrab.tasks has them');
select is((select result || ' ' || links || ' ' || skipped from pgrab.chain_runs), 'succeeded 6 2',
  'and so has chain_runs');
select pg_temp.fresh();

-- a failure, and going on after it
insert into pgrab.task (id, kind, max_attempts) overriding system value values (1, 'noop', 1);
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values
  (2, 'noop', 1, 'success'), (3, 'noop', 1, 'failure'), (4, 'noop', 2, 'success');
select is(pg_temp.ends(1, 'failed'), '1- 2o 3! 4o', 'a failure parks the link and starts the failure branch');
select is(pg_temp.ends(3), '1- 2o 3+ 4o', 'a chain with a parked link stays');
select is((select result from pgrab.chain_runs), 'failed', 'it has failed so far');
select is((select status from pgrab.retry(1)), 'scheduled', 'a person tries it again');
select is(pg_temp.chain(), '1! 2. 3+ 4.', 'what was skipped because of it waits again');
select is(pg_temp.ends(1), '1+ 2! 3+ 4.', 'now it succeeds');
select pg_temp.ends(2);
select is(pg_temp.ends(4), 'gone', 'and the chain goes on to its end');
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.tasks),
  '1 done, 2 done, 3 done, 4 done', 'each task has ended once');
select pg_temp.fresh();

-- fan-in
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 1), (4, 'noop', 2);
insert into pgrab.edge values (3, 4);
select pg_temp.ends(1);
select is(pg_temp.ends(2), '1+ 2+ 3! 4.', 'one of two parents is not enough');
select is(pg_temp.ends(3), '1+ 2+ 3+ 4!', 'both are');
select is(pg_temp.ends(4), 'gone', 'the end');
select pg_temp.fresh();
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
insert into pgrab.edge values (2, 3, 'always');
select is((select count(distinct chain) from pgrab.task), 1::bigint, 'two roots that meet are one chain');
select is(pg_temp.ends(1, 'failed'), '1- 2! 3o', 'one edge that can never be satisfied is enough to skip it');
select is(pg_temp.ends(2), '1- 2+ 3o', 'once');
select is((select status from pgrab.cancel(1)), 'cancelled', 'cancel of what is parked');
select is(pg_temp.chain(), 'gone', 'was the last there was to wait for');
select pg_temp.fresh();
-- both at the same moment, in one batch
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
insert into pgrab.edge values (2, 3);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id < 3;
select is((select count(*) from pgrab_internal.finish((array[1, 2], array[7, 7], array[11, 11], array[1, 1],
      array[0, 0], array['succeeded', 'succeeded'], null, null, null, null,
      null, null)::pgrab_internal.outcomes, 1, 'n')),
  2::bigint, 'two parents in one statement');
select is(pg_temp.chain(), '1+ 2+ 3!', 'release it once');
select pg_temp.fresh();

-- links leave with their end; the history remembers them
insert into pgrab.task (id, name, kind) overriding system value values (1, 'root', 'noop');
insert into pgrab.task (id, name, kind, parent_id) overriding system value values
  (2, 'left', 'noop', 1), (3, 'right', 'noop', 1);
insert into pgrab.task (id, name, kind, parent_id, run_if) overriding system value values
  (4, 'alarm', 'noop', 2, 'failure'), (5, 'last', 'noop', 2, 'success'), (6, 'end', 'noop', 5, 'success');
insert into pgrab.edge values (3, 5);
select pg_temp.ends(1, 'succeeded', 'out of root'); select pg_temp.ends(2);
select is((select string_agg(id::text, ' ' order by id) from pgrab.task), '3 5 6',
  'what has ended has left, and what can never start');
select is((select string_agg(task || ' ' || status, '/' order by path) from pgrab.chains where root = 1),
  'root done/  left done/    alarm skipped/    last waiting/      end waiting/  right scheduled',
  'the chain is drawn with those that have left');
select is((select result || ' ' || links from pgrab.chain_runs), 'running 3', 'its run is not over');
select is((select detail from pgrab.explain(5) where gate = 'parent left'),
  'It has ended: done; required: success.', 'explain knows a parent that has left');
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 3), 'out of root',
  'and so does its child');
select throws_ok(
  'insert into pgrab.task (id, kind, parent_id) overriding system value values (9, ''noop'', 2)',
  '22023', 'task 2 cannot be a parent of task 9: it has ended: done');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 3;
select is((select name || ' ' || status from pgrab.cancel(1)), 'root running',
  'cancel of a root that has left, whose chain goes on');
select is(
  (select string_agg(id || ' ' || status, ' ') from pgrab.task) || ' '
    || (select string_agg(task_id::text, ' ') from pgrab.cancel_request),
  '3 running 3', 'stops the rest of it');
select throws_ok('select pgrab.cancel(2)', 'P0002', 'task 2 has ended: done');
select pgrab_internal.finish((array[3], array[7], array[11], array[1], array[0], array['failed'], null, null,
  null, array['stopped'], null, null)::pgrab_internal.outcomes, 1, 'n');
select throws_ok('select pgrab.cancel(1)', 'P0002', 'task 1 has ended: done');
select is(
  (select result from pgrab.chain_runs) || (select count(*) from pgrab.chain)
    || (select count(*) from pgrab.edge),
  'cancelled00', 'and nothing is left of it');
select pg_temp.fresh();

-- a parked link: what is skipped is kept for a retry, and only for that
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1), (4, 'noop', 3);
insert into pgrab.edge values (2, 3);
select pg_temp.ends(1, 'failed');
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.task),
  '1 parked, 2 scheduled, 3 skipped, 4 skipped', 'what a parked link keeps from starting is kept');
select pg_temp.ends(2);
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.task),
  '1 parked, 3 skipped, 4 skipped', 'as long as that');
select count(*) from pgrab.retry(1);
select is((select string_agg(id || ' ' || status || ' ' || needs, ', ' order by id) from pgrab.task),
  '1 scheduled 0, 3 waiting 1, 4 waiting 1', 'the retry knows that the other parent has ended');
select pg_temp.ends(1, 'failed');
select is((select string_agg(status, '') from pgrab.cancel(1)), 'cancelled', 'a parked link is given up');
select is(pg_temp.chain() || (select count(*) from pgrab.chain), 'gone0', 'and what hung on it leaves');
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.tasks),
  '1 cancelled, 2 done, 3 skipped, 4 skipped', 'on record, each once');
select pg_temp.fresh();

-- kept from starting by two
insert into pgrab.task (id, kind) overriding system value values (7, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (1, 'noop', 7), (2, 'noop', 7);
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1), (4, 'noop', 3);
insert into pgrab.edge values (2, 3);
select pg_temp.ends(7); select pg_temp.ends(1, 'failed');
select pgrab.cancel(2);
select count(*) from pgrab.retry(1);
select is(pg_temp.chain(), '1! 2x 3o 4o 7+',
  'what another end has kept from starting as well is not brought back');
select pg_temp.ends(1);
select is(pg_temp.chain() || (select count(*) from pgrab.chain), 'gone0', 'and leaves with the last');
select pg_temp.fresh();

-- with several roots
insert into pgrab.task (id, kind, run_at) overriding system value values
  (1, 'noop', '2026-01-01 11:00Z'), (2, 'noop', '2026-01-01 10:00Z');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
insert into pgrab.edge values (2, 3);
select pg_temp.ends(1); select pg_temp.ends(2);
select is((select fire_at from pgrab.task), '2026-01-01 11:00Z',
  'a link has the latest planned time of its parents');
select pg_temp.fresh();

-- a finish whose links are not counted any more when it comes to that
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 2);
select pg_temp.ends(1);
update pgrab.task set status = 'done', needs = null, due_at = null where id = 2; -- its finish, up to here
insert into pgrab.run (task_id, attempt, version, chain_id, finished_at, created_at, outcome, kind, owner)
select 2, 1, 1, chain_id, now(), now(), 'succeeded', 'noop', 'o' from pgrab.chain;
update pgrab.chain set root = null, pending = null; -- its schedule is taken away
select pgrab_internal.chain_advance('{2}', array[chain], '{done}', array[now()], true) from pgrab.chain;
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.task where id <> 1),
  '3 scheduled', 'what has ended leaves all the same');
select pg_temp.fresh();

-- one end releases a link halfway, and skips its other parent
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (2, 'noop', 1, 'failure');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (3, 'noop', 2, 'failure');
insert into pgrab.edge values (1, 3, 'success');
select is(pg_temp.ends(1), 'gone', 'what can never start leaves');
select is((select count(*) from pgrab.chain), 0::bigint, 'and nothing goes on, so the chain has ended');
select pg_temp.fresh();

-- the guard of chains does not go by what anybody may set
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
set local pgrab.link_ends = 'on';
select throws_ok('delete from pgrab.task where id = 1', '55000', null,
  'what a person says of a delete is refused');
set local pgrab.link_ends = '';
select isnt((select value from pgrab_internal.key where name = 'link_ends'),
  current_setting('pgrab.link_ends'), 'the word is kept secret');
select is(
  (select count(*) from aclexplode((select relacl from pg_class where oid = 'pgrab_internal.key'::regclass)) a
    where a.grantee <> (select relowner from pg_class where oid = 'pgrab_internal.key'::regclass)),
  0::bigint, 'from everybody');
select pg_temp.fresh();

-- what others have changed, and is dead, is not read by each end
create function pg_temp.blocks(p_id bigint) returns bigint language plpgsql as $$
declare
  v_plan jsonb;
begin
  execute format('explain (analyze, buffers, format json) select pg_temp.ends(%s)', p_id) into v_plan;
  return (v_plan #>> '{0,Plan,Shared Hit Blocks}')::bigint
    + (v_plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end $$;
insert into pgrab.task (id, kind) overriding system value
select i, 'noop' from generate_series(1, 9, 2) i;
insert into pgrab.task (id, kind, parent_id) overriding system value
select i, 'noop', i - 1 from generate_series(2, 10, 2) i;
create temporary table cost (what text, blocks bigint);
insert into cost select 'to know the way', pg_temp.blocks(1);
insert into cost select 'before', pg_temp.blocks(3);
insert into pgrab.edge_change (chain, parent_id, child_id, run_if, added)
select -1, -i, -i, 'success', true from generate_series(1, 40000) i;
insert into pgrab.skipping (task_id, chain, status) select -i, -1, 'skipped' from generate_series(1, 40000) i;
delete from pgrab.edge_change;
delete from pgrab.skipping;
-- the least of three: other sessions may make this one read the catalog anew
insert into cost select 'after', pg_temp.blocks(i) from unnest('{5,7,9}'::bigint[]) i;
select cmp_ok((select min(blocks) from cost where what = 'after'), '<',
  (select blocks + 60 from cost where what = 'before'), 'dead changes of graphs cost an end nothing');
select pg_temp.fresh();

select * from finish();
rollback;
