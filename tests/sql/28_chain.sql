-- Chains: what is refused, what the end of a link sets in motion, how a run of a chain ends.
begin;
select plan(173);
set local timezone = 'UTC';

-- A run of one task, from its start to its outcome, as a node does it.
create function pg_temp.ends(p_id bigint, p_outcome text default 'succeeded', p_output text default null)
returns text
language plpgsql as $$
begin
  update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11,
    attempt = max_attempts, claimed_at = now(), started_at = now()
  where id = p_id and status in ('scheduled', 'claimed');
  if not found then
    return 'not due';
  end if;
  perform pgrab_internal.finish((array[p_id], array[7], array[11], array[2000000], array[1000000],
    array[p_outcome], null, array[p_output], null, array[case when p_outcome <> 'succeeded' then 'why' end],
    null)::pgrab_internal.batch, 1, 'n1');
  return pg_temp.chain(p_id);
end $$;
-- Each link as its id and a letter for its status; those that have left are remembered as long as their chain
-- goes on.
create function pg_temp.chain(p_id bigint default null) returns text language sql as $$
  select coalesce(string_agg(t.id || case t.status when 'scheduled' then '!' when 'waiting' then '.'
      when 'running' then 'r' when 'done' then '+' when 'parked' then '-' when 'skipped' then 'o'
      when 'cancelled' then 'x' else '?' end, ' ' order by t.id), 'gone')
  from (
    select t.id, t.status from pgrab.task t
    union
    select r.task_id, r.ended from pgrab.run r join pgrab.chain c using (chain_id)
    where r.ended is not null and r.task_id not in (select id from pgrab.task)) t
$$;
-- What is on record of each, in the order of their ids.
create function pg_temp.outcomes() returns text language sql as $$
  select string_agg(r.task_id || ' ' || r.outcome || coalesce(' ' || r.ended, ''), ', '
    order by r.task_id, r.finished_at)
  from pgrab.run r
$$;
-- Begins anew, with nothing.
create function pg_temp.fresh() returns text language plpgsql as $$
begin
  perform pgrab_internal.link_ends('on');
  delete from pgrab.edge_change;
  delete from pgrab.edge;
  delete from pgrab.task;
  delete from pgrab.chain;
  delete from pgrab.run;
  perform pgrab_internal.link_ends('');
  return '';
end $$;

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
  'task 4 cannot be a parent of task 2: it would wait for itself: it hangs below that task already');
select throws_ok('insert into pgrab.edge values (4, 2)', '22023',
  'task 4 cannot be a parent of task 2: it would wait for itself: it hangs below that task already');
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
select is(pg_temp.chain(), '1! 2!', 'and the rest of the chain is there');
select pg_temp.fresh();

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
      null)::pgrab_internal.batch, 1, 'n')),
  2::bigint, 'two parents in one statement');
select is(pg_temp.chain(), '1+ 2+ 3!', 'release it once');
select pg_temp.fresh();

-- what comes down
insert into pgrab.task (id, name, kind) overriding system value values (1, 'a', 'noop'), (2, 'b', 'noop');
insert into pgrab.task (id, kind, command, args, parent_id) overriding system value values
  (3, 'http', 'http://h/', '{"body": {"all": "{{parent_json}}", "text": "<{{parent_output}}>"}}', 1);
select pg_temp.ends(1, 'succeeded', E'say "hi"\n');
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 3), E'say "hi"\n',
  'the output of a parent is offered as text');
select ok((select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args) like '%"text": "<say \\"hi\\"\\n>"%'
      and pgrab_internal.args_for(t.id, t.chain, t.kind, t.args) like '%"all": "say \\"hi\\"\\n"%'
    from pgrab.task t where id = 3),
  'and put into the texts of args, as JSON wants it');
insert into pgrab.edge values (2, 3);
select pg_temp.ends(2, 'succeeded', '{"n": 1}');
select is((select pgrab_internal.parent_output(t.id, t.chain)::jsonb from pgrab.task t where id = 3),
  '{"a": "say \"hi\"\n", "b": {"n": 1}}', 'of several parents an object by name');
select alike((select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args) from pgrab.task t where id = 3),
  '%{"all": {"a": "say \\"hi\\"\\n", "b": {"n": 1}}%', 'parent_json is JSON, not a text');
select pg_temp.fresh();

insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, command, parent_id) overriding system value values (3, 'shell', 'true', 1);
insert into pgrab.edge values (2, 3);
select pg_temp.ends(1, 'succeeded', repeat(E'\n', 40000));
select pg_temp.ends(2, 'succeeded', repeat('€', 20000));
select cmp_ok((select octet_length(pgrab_internal.parent_output(t.id, t.chain)) from pgrab.task t
    where id = 3), '<=', 65536, 'together they fit into an environment');
select pg_temp.fresh();

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
  null, array['stopped'], null)::pgrab_internal.batch, 1, 'n');
select is(pg_temp.chain() || (select count(*) from pgrab.cancel_request), 'gone0',
  'and when that has ended the chain has');
select is((select result from pgrab.chain_runs), 'cancelled', 'it was cancelled');
select pg_temp.fresh();

-- pictures
insert into pgrab.task (id, name, kind) overriding system value values (1, 'extract', 'noop');
insert into pgrab.task (id, name, kind, parent_id) overriding system value values
  (2, 'clean', 'noop', 1), (3, 'load', 'noop', 1);
insert into pgrab.edge values (2, 3);
select is((select string_agg(task, '/' order by path) from pgrab.chains where root = 1),
  'extract/  clean/    load', 'a link stands below its deepest parent');
select is(pgrab.why(3), 'waiting for extract, clean', 'why names the parents');
select is((select string_agg(gate || ' ' || verdict, ', ') from pgrab.explain(3) where gate like 'parent %'),
  'parent extract waits, parent clean waits', 'and so does explain');
select pg_temp.ends(1); select pg_temp.ends(2); select pg_temp.ends(3);
select is((select string_agg(task || ' ' || outcome, '/' order by path) from pgrab.chains where root = 1),
  'extract succeeded/  clean succeeded/    load succeeded', 'an ended chain can be drawn too');
select pg_temp.fresh();
-- taken apart
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 2);
update pgrab.task set parent_id = null where id = 2;
select is((select string_agg(id || ' ' || dense_rank, ', ' order by id)
    from (select id, dense_rank() over (order by chain) from pgrab.task) t),
  '1 1, 2 2, 3 2', 'a part that hangs on nothing else is a chain of its own');
select is(pg_temp.ends(1), '2! 3.', 'and they end apart');
select pg_temp.fresh();

-- what is done to a chain that has begun
insert into pgrab.task (id, kind, run_at) overriding system value values (1, 'noop', now() - interval '1 h');
insert into pgrab.task (id, kind, parent_id, run_at) overriding system value values
  (2, 'noop', 1, now() - interval '1 min');
update pgrab.task set parent_id = null where id = 2;
select is(pg_temp.ends(2), '1!', 'a link that was taken out of its chain runs once');
select pg_temp.fresh();

insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop'), (3, 'noop');
insert into pgrab.edge values (1, 3, 'always'), (2, 3, 'success');
select pg_temp.ends(1, 'failed');
select pgrab.retry(1);
select is(pg_temp.ends(1), '1+ 2! 3.', 'the end of a parent that is retried counts once');
select pg_temp.fresh();

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

insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 3);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 1;
update pgrab.task set parent_id = null where id = 2;
select pg_temp.ends(1);
select pgrab_internal.finish((array[1], array[7], array[11], array[1], array[0], array['succeeded'], null,
  null, null, null, null)::pgrab_internal.batch, 1, 'n');
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

insert into pgrab.task (id, kind, schedule, max_runs) overriding system value values
  (1, 'noop', '@every 1s', 1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select pg_temp.ends(1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
select is(pg_temp.ends(2), 'gone', 'a link that came in the last run leaves with the chain');
select is(pg_temp.outcomes(), '1 succeeded done, 2 succeeded done, 3 skipped skipped',
  'and that is on record');
select pg_temp.fresh();

insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1s');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
select pg_temp.ends(1);
update pgrab.task set schedule = null where id = 1;
select pg_temp.ends(2);
select is(pg_temp.outcomes(), '1 succeeded done, 2 succeeded done',
  'a schedule taken away under way: what has ended has ended for good');
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
  'It has ended: succeeded; asked for: success.', 'explain knows a parent that has left');
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
  null, array['stopped'], null)::pgrab_internal.batch, 1, 'n');
select throws_ok('select pgrab.cancel(1)', 'P0002', 'task 1 has ended: done');
select is(
  (select result from pgrab.chain_runs) || (select count(*) from pgrab.chain)
    || (select count(*) from pgrab.edge),
  'cancelled00', 'and nothing is left of it');
select pg_temp.fresh();

insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (8, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 2), (9, 'noop', 8);
insert into pgrab.edge values (8, 2, 'always');
select pg_temp.ends(1);
select throws_ok('update pgrab.task set schedule = ''@daily'' where id = 8', '22023',
  'task schedule cannot be ''@daily''', 'a chain that has begun gets no schedule');
select results_eq('select pgrab.delete_chain(1)', 'values (2::bigint), (3)',
  'delete_chain of a root that has left');
select is(pg_temp.chain(), '1+ 8! 9.', 'takes what hangs below it');
select throws_ok('select pgrab.delete_chain(4711)', 'P0002', 'task 4711 does not exist');
select pg_temp.fresh();

-- two chains that have begun become one; and apart again
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (11, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 1), (12, 'noop', 11), (13, 'noop', 12);
select pg_temp.ends(1); select pg_temp.ends(11, 'succeeded', 'of 11');
insert into pgrab.edge values (2, 13);
select is((select string_agg(distinct chain::text, ',') || ' ' || count(*) from pgrab.task),
  (select chain || ' 4' from pgrab.chain), 'an edge between two chains that have begun');
select is((select count(distinct chain_id) from pgrab.run), 1::bigint, 'makes them one, with their history');
delete from pgrab.edge;
select is((select string_agg(id || ' ' || c, ', ' order by id)
    from (select id, dense_rank() over (order by chain) as c from pgrab.task) t),
  '2 1, 3 1, 12 2, 13 2', 'apart again: what hangs together over a link that has left stays together');
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 12), 'of 11',
  'and keeps what that has printed');
select pg_temp.ends(2); select pg_temp.ends(12); select pg_temp.ends(3); select pg_temp.ends(13);
select is(pg_temp.chain() || (select count(*) from pgrab.chain), 'gone0', 'and each comes to its end');
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

-- parked because its end could not be recorded
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values
  (2, 'noop', 1, 'failure'), (3, 'noop', 1, 'success');
update pgrab.task set status = 'parked', due_at = null where id = 1;
select pgrab_internal.link_parked(t.id, t.chain, t.fire_at) from pgrab.task t where id = 1;
select is(pg_temp.chain(), '1- 2! 3o', 'a link that was parked without a finish sets its chain going');
select pg_temp.fresh();

-- parents of one name
insert into pgrab.task (id, name, kind) overriding system value values
  (1, 'part', 'noop'), (2, 'part', 'noop'), (3, 'other', 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 1);
insert into pgrab.edge values (2, 4), (3, 4);
select pg_temp.ends(1, 'succeeded', '1'); select pg_temp.ends(2, 'succeeded', '2');
select pg_temp.ends(3, 'succeeded', '3');
select is((select pgrab_internal.parent_output(t.id, t.chain)::jsonb from pgrab.task t where id = 4),
  '{"part#1": 1, "part#2": 2, "other": 3}', 'do not hide each other');
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

-- taken apart over links that have left
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (11, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (12, 'noop', 11), (13, 'noop', 11);
insert into pgrab.edge values (2, 13);
select pg_temp.ends(11, 'succeeded', 'out of 11');
delete from pgrab.edge;
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 12), 'out of 11',
  'the part keeps its history');
select is((select string_agg(task, '/' order by path) from pgrab.chains where root = 11), '#11/  #12/  #13',
  'and its picture');
select pg_temp.fresh();
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 2);
select pg_temp.ends(1, 'failed');
update pgrab.task set parent_id = null where id = 2;
select is((select string_agg(id::text, ' ') || ' ' || (select count(*) from pgrab.chain) from pgrab.task),
  '1 1', 'a part that has been skipped leaves');
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
  null, array['why'], null)::pgrab_internal.batch, 1, 'n');
select throws_ok('update pgrab.task set schedule = ''@daily'' where id = 5', '22023',
  'task schedule cannot be ''@daily''', 'nor gets it a schedule while a link is free');
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
select pgrab_internal.chain_advance('{2}', array[chain], '{succeeded}', array[now()], true) from pgrab.chain;
select is((select string_agg(id || ' ' || status, ', ' order by id) from pgrab.task where id <> 1),
  '3 scheduled', 'what has ended leaves all the same');
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
  'waits: Its chain is running, and fires again when it has ended: 1 of its links have not (#3).',
  'explain says what the root waits for');
select is(pg_temp.ends(3), '1! 3. 4.', 'to its end');
select lives_ok('delete from pgrab.task where id = 4', 'between two runs everything may go');
select pg_temp.fresh();

-- a parent twice
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 1);
insert into pgrab.edge values (2, 3);
select throws_ok('update pgrab.task set parent_id = 2 where id = 3', '22023',
  'task 2 cannot be a parent of task 3: there is an edge between them already');
select throws_ok('truncate pgrab.edge', '0A000',
  'pgrab.edge cannot be truncated: the tasks below would wait for ever');
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

-- the guard of chains does not go by what anybody may set
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
set local pgrab.link_ends = 'on';
select throws_ok('delete from pgrab.task where id = 1', '23503', null,
  'whatever a person says a delete is a delete');
set local pgrab.link_ends = '';
select isnt((select value from pgrab_internal.key where name = 'link_ends'),
  current_setting('pgrab.link_ends'), 'the word is kept secret');
select is(
  (select count(*) from aclexplode((select relacl from pg_class where oid = 'pgrab_internal.key'::regclass)) a
    where a.grantee <> (select relowner from pg_class where oid = 'pgrab_internal.key'::regclass)),
  0::bigint, 'from everybody');
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
select is(pg_temp.outcomes(), '1 cancelled cancelled, 3 cancelled cancelled',
  'and is on record as cancelled');
select is((select count(*) from pgrab_internal.finish((array[1, 2, 3], array[7, 7, 7], array[11, 11, 11],
      array[1, 1, 1], array[0, 0, 0], array['failed', 'succeeded', 'failed'], null, null, null, null,
      null)::pgrab_internal.batch, 1, 'n')),
  1::bigint, 'its end is nobody''s');
select is((select count(*) from pgrab.cancel_request), 0::bigint, 'and takes the wish away');
select is(pg_temp.outcomes(), '1 cancelled cancelled, 2 succeeded done, 3 cancelled cancelled',
  'a finish is no delete');
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

-- one end releases a link halfway, and skips its other parent
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (2, 'noop', 1, 'failure');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (3, 'noop', 2, 'failure');
insert into pgrab.edge values (1, 3, 'success');
select is(pg_temp.ends(1), 'gone', 'what can never start leaves');
select is((select count(*) from pgrab.chain), 0::bigint, 'and nothing goes on, so the chain has ended');
select pg_temp.fresh();

-- the last two end at the same moment, and neither sees it
insert into pgrab.chain (root) values (null);
select count(*) from pgrab.upkeep();
select is((select count(*) from pgrab.chain), 0::bigint, 'upkeep finds chains that nobody ended');

select * from finish();
rollback;
