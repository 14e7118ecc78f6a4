-- Edges: which are refused, and what becomes of those that change while a chain runs.
begin;
\ir chain.inc
select plan(47);
set local timezone = 'UTC';

-- what is refused
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
select throws_ok(
  'insert into pgrab.task (id, kind, parent_id) overriding system value values (9, ''noop'', 9)',
  '22023', 'task 9 cannot be a parent of task 9: it is the task itself');
select throws_ok(
  'insert into pgrab.task (id, kind, parent_id) overriding system value values (9, ''noop'', 4711)',
  '22023', 'task 4711 cannot be a parent of task 9: there is no such task');
select throws_ok(
  'insert into pgrab.task (id, kind, parent_id, schedule) overriding system value '
    'values (9, ''noop'', 1, ''@daily'')',
  '22023', 'task schedule cannot be ''@daily''');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 2), (4, 'noop', 3);
select throws_ok('update pgrab.task set parent_id = 4 where id = 2', '22023',
  'task 4 cannot be a parent of task 2: it would wait for itself: it is already below that task');
select throws_ok('insert into pgrab.edge values (4, 2)', '22023',
  'task 4 cannot be a parent of task 2: it would wait for itself: it is already below that task');
select throws_ok('insert into pgrab.edge values (2, 2)', '22023',
  'task 2 cannot be a parent of task 2: it is the task itself');
select throws_ok('insert into pgrab.edge values (2, 3)', '22023',
  'task 2 cannot be a parent of task 3: it is its parent_id already');
select throws_ok('insert into pgrab.edge values (2, 4711)', '22023',
  'task 2 cannot be a parent of task 4711: there is no task 4711');
select throws_ok('insert into pgrab.edge values (2, 1, ''perhaps'')', '23514');
select throws_ok('update pgrab.task set schedule = ''@daily'' where id = 3', '22023',
  'task schedule cannot be ''@daily''');
select throws_ok('delete from pgrab.task where id = 2', '23503',
  'task 2 cannot be deleted: other tasks wait for it');
update pgrab.task set owner = 'somebody' where id = 1;
select throws_ok(
  'insert into pgrab.task (id, kind, parent_id) overriding system value values (9, ''noop'', 1)',
  '22023', 'task 1 cannot be a parent of task 9: it belongs to somebody, not to ' || session_user);
insert into pgrab.run (task_id, attempt, version, finished_at, created_at, outcome, ended, kind, owner) values
  (77, 1, 1, now(), now(), 'succeeded', 'done', 'noop', 'o');
select throws_ok(
  'insert into pgrab.task (id, kind, parent_id) overriding system value values (9, ''noop'', 77)',
  '22023', 'task 77 cannot be a parent of task 9: it has ended: done');
select is(pg_temp.chain(), '1! 2! 3. 4.', 'nothing of this has changed anything');
select results_eq('select * from pgrab.delete_chain(3)', 'values (3::bigint), (4)',
  'delete_chain takes what hangs below');
select is(pg_temp.chain(), '1! 2! 3x 4x', 'and the rest of the chain is there');
select pg_temp.fresh();

-- what is done to a chain that has begun
insert into pgrab.task (id, kind, run_at) overriding system value values (1, 'noop', now() - interval '1 h');
insert into pgrab.task (id, kind, parent_id, run_at) overriding system value values
  (2, 'noop', 1, now() - interval '1 min');
update pgrab.task set parent_id = null where id = 2;
select is(pg_temp.ends(2), '1!', 'a link that was taken out of its chain runs once');
select pg_temp.fresh();

-- An edit skips nobody: what waits for no one any more starts, also if all others above it were skipped, and
-- what can start already stays so.  4 is below 2 and 3, and 3 is skipped when 1 succeeds.
create function pg_temp.without_2(variadic p_ended bigint[]) returns text language plpgsql as $$
declare
  v_chain text;
begin
  insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
  insert into pgrab.task (id, kind, parent_id, run_if) overriding system value
  values (3, 'noop', 1, 'failure'), (4, 'noop', 2, 'success');
  insert into pgrab.edge values (3, 4, 'always');
  perform pg_temp.ends(i) from unnest(p_ended) i;
  update pgrab.task set parent_id = null where id = 4;
  v_chain := pg_temp.chain();
  perform pg_temp.fresh();
  return v_chain;
end $$;
select is(pg_temp.without_2(1), '1+ 2! 3o 4!', 'a link that is left with a parent that was skipped starts');
select is(pg_temp.without_2(1, 2), '1+ 2+ 3o 4!', 'and so does one that has lost the parent that has run');

-- a parent that is tried again
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop'), (3, 'noop');
insert into pgrab.edge values (1, 3, 'always'), (2, 3, 'success');
select pg_temp.ends(1, 'failed');
select pgrab.retry(1);
select is(pg_temp.ends(1), '1+ 2! 3.', 'the end of a parent that is retried counts once');
select pg_temp.fresh();

-- a parent that has failed
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
select pg_temp.ends(1, 'failed');
select throws_ok('insert into pgrab.edge values (1, 2)', '22023',
  'task 1 cannot be a parent of task 2: it is parked', 'its end has been counted');
select pgrab.retry(1);
insert into pgrab.edge values (1, 2);
select pg_temp.ends(1);
select pg_temp.ends(2);
select is(pg_temp.chain() || (select count(*) from pgrab.chain), 'gone0',
  'one that is tried again may become a parent');
select pg_temp.fresh();

-- edges that come and go while the chain runs
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 3);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 1;
update pgrab.task set parent_id = null where id = 2;
select pg_temp.ends(1);
select pgrab_internal.finish((array[1], array[7], array[11], array[1], array[0], array['succeeded'], null,
  null, null, null, null, null)::pgrab_internal.outcomes, 1, 'n');
select is(pg_temp.chain(), '1+ 2! 3! 4.',
  'a link whose only edge is dropped under way takes part in the run');
insert into pgrab.edge values (1, 4, 'always');
delete from pgrab.edge;
select is(pg_temp.ends(2), '1+ 2+ 3! 4.', 'an edge that came and went under way does not count');
select throws_ok('delete from pgrab.task where id = 3', '23503',
  'task 3 cannot be deleted: other tasks wait for it');
select pg_temp.ends(3);
select is(pg_temp.ends(4), '1! 3. 4.', 'and with the run it leaves: it has had its end for this fire');
select is((select string_agg(r.task_id || ' ' || r.ended, ', ') from pgrab.run r where r.ended is not null),
  '2 done', 'which is on record');
select is((select string_agg(root || ' ' || pending, ', ') from pgrab.chain), '1 3',
  'the chain goes on without it');
select pg_temp.fresh();

-- a recurring chain has one root, whatever is taken away
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 1), (4, 'noop', 2);
insert into pgrab.edge values (3, 4);
select pg_temp.ends(1);
select throws_ok('update pgrab.task set parent_id = null where id = 2', '22023',
  'task 2 cannot lose its last parent, 1: the chain has a schedule and would have two roots');
select lives_ok('update pgrab.task set parent_id = null where id in (2, 4)',
  'not when it hangs together with it no more');
select throws_ok('insert into pgrab.edge values (2, 4)', '22023',
  'task 2 cannot be a parent of task 4: the chain has a schedule and would have two roots');
select pg_temp.ends(2, 'failed'); select pg_temp.ends(3);
select is(pg_temp.chain(), '1! 2- 3. 4.', 'a link that has failed stays, parked, beside the chain');
select is((select string_agg(t.id::text, ' ' order by t.id) from pgrab.task t join pgrab.chain c using (chain)
    where c.root = 1), '1 3 4', 'to which it does not belong any more');
select is((select status from pgrab.retry(2)), 'scheduled', 'it may be tried again');
select is(pg_temp.ends(2), '1! 3. 4.', 'and leaves with its end');
update pgrab.task set parent_id = 1 where id = 4;
select throws_ok('update pgrab.task set parent_id = null where id = 3', '22023', null,
  'nor between two runs');
delete from pgrab.edge;
update pgrab.task set parent_id = null where id = 3;
select is((select chain is null and status = 'scheduled' and fire_at > now() from pgrab.task where id = 3),
  true, 'where a link on its own starts for a fire of its own');
select pg_temp.fresh();

-- an edge that was added under way does not count, also when the schedule is taken away
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 1), (4, 'noop', 2);
select pg_temp.ends(1);
insert into pgrab.edge values (3, 4);
update pgrab.task set schedule = null where id = 1;
delete from pgrab.edge;
select is(pg_temp.chain(), '1+ 2! 3! 4.', 'nor does its end');
select pg_temp.ends(2);
select is((select status from pgrab.task where id = 4), 'scheduled', 'the link starts after its parent');
select pg_temp.fresh();

-- what has begun does not become part of a recurring chain
insert into pgrab.task (id, kind) overriding system value values (5, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (6, 'noop', 5, 'failure');
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select pg_temp.ends(1);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 3
where id = 5;
select throws_ok('insert into pgrab.edge values (2, 5)', '22023',
  'task 2 cannot be a parent of task 5: its chain has begun, and runs once');
select pgrab_internal.finish((array[5], array[7], array[11], array[1], array[0], array['failed'], null, null,
  null, array['why'], null, null)::pgrab_internal.outcomes, 1, 'n');
select throws_ok('update pgrab.task set schedule = ''@daily'' where id = 5', '22023',
  'task schedule cannot be ''@daily''', 'nor gets it a schedule while a link is free');
select pg_temp.fresh();

-- a parent twice
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
insert into pgrab.edge values (2, 3);
select throws_ok('update pgrab.task set parent_id = 2 where id = 3', '22023',
  'task 2 cannot be a parent of task 3: there is an edge between them already');
select throws_ok('truncate pgrab.edge', '0A000',
  'pgrab.edge cannot be truncated: the children would wait for ever');
select pg_temp.fresh();

-- what many edges of one parent cost
create function pg_temp.drop_edges(p_parent bigint) returns void language sql as
  'delete from pgrab.edge where parent_id = p_parent';
create function pg_temp.blocks(p_parent bigint) returns bigint language plpgsql as $$
declare
  v_plan jsonb;
begin
  execute format('explain (analyze, buffers, format json) select pg_temp.drop_edges(%s)', p_parent)
  into v_plan;
  return (v_plan #>> '{0,Plan,Shared Hit Blocks}')::bigint
    + (v_plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end $$;
insert into pgrab.task (id, kind, run_at) overriding system value
select i, 'noop', now() + interval '1 day' from generate_series(1, 602) i;
insert into pgrab.edge (parent_id, child_id)
select case when i <= 102 then 1 else 2 end, i from generate_series(3, 602) i;
select cmp_ok(x.of_100 * 10, '>', x.of_500,
  'five times the edges of one parent cost about five times as much')
from (select pg_temp.blocks(1) as of_100, pg_temp.blocks(2) as of_500) x;
select pg_temp.fresh();

-- Every child keeps its parent, and so stays in the chain.
insert into pgrab.task (id, kind, schedule) overriding system value
values (1, 'noop', '@daily'), (2, 'noop', '@daily');
insert into pgrab.task (id, kind, parent_id) overriding system value
select i, 'noop', case when i <= 103 then 1 else 2 end from generate_series(3, 604) i;
insert into pgrab.edge (parent_id, child_id)
select case when i <= 103 then 3 else 104 end, i from generate_series(4, 604) i where i <> 104;
select cmp_ok(x.of_100 * 10, '>', x.of_500, 'also in a chain with a schedule')
from (select pg_temp.blocks(3) as of_100, pg_temp.blocks(104) as of_500) x;
select pg_temp.fresh();
-- unless that goes with the same statement, whichever of the two edges is looked at first
create function pg_temp.parts(p_first bigint) returns text language plpgsql as $$
declare
  v_parts text;
begin
  insert into pgrab.task (id, kind, schedule, parent_id) overriding system value
  values (1, 'noop', '@daily', null), (4, 'noop', null, 1);
  insert into pgrab.task (id, kind, run_at, parent_id) overriding system value
  values (2, 'noop', '2099-01-01', null), (3, 'noop', null, 2);
  insert into pgrab.edge (parent_id, child_id) values (1, 2);
  if p_first = 2 then
    insert into pgrab.edge (parent_id, child_id) values (4, 3);
  else
    delete from pgrab.edge;
    insert into pgrab.edge (parent_id, child_id) values (4, 3), (1, 2);
  end if;
  delete from pgrab.edge;
  select string_agg(x.ids, ' | ' order by x.ids) into v_parts
  from (select string_agg(t.id::text, ',' order by t.id) as ids from pgrab.task t group by t.chain) x;
  perform pg_temp.fresh();
  return v_parts;
end $$;
select is(pg_temp.parts(2), '1,4 | 2,3', 'what is above it first');
select is(pg_temp.parts(3), '1,4 | 2,3', 'or it itself');

select * from finish();
rollback;
