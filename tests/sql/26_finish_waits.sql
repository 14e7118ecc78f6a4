-- Handlers that wait in the middle of their fire: the run ends, and another goes on.
begin;
select plan(57);
set local timezone = 'UTC';
\ir chain.inc
insert into pgrab.kind (kind, summary, handled) values ('order', 'tests', true);
insert into pgrab.task (id, kind, max_attempts, schedule, delivery) overriding system value
select i, 'order', 1, case when i = 5 then '@daily' end,
  case when i = 6 then 'at_most_once' else 'at_least_once' end
from generate_series(1, 12) i;
alter table pgrab.task alter id restart with 1001;

create function pg_temp.run(p_id bigint) returns void language sql as $$
  update pgrab.task set status = 'running', version = version + 1, node_id = 1, incarnation = 11,
    attempt = attempt + 1, claimed_at = now(), started_at = now()
  where id = p_id and status = 'scheduled' and due_at <= clock_timestamp()
$$;
create function pg_temp.ends_as(p_id bigint, p_outcome text, p_name text default 'go',
  p_us bigint default null, p_beside bigint default 0) returns bigint
language sql as $$
  select count(*) from pgrab.task t cross join lateral pgrab_internal.finish((array[t.id],
      array[t.version + p_beside], array[11], array[2000], array[1000], array[p_outcome], array[null]::int[],
      array['so far'], array[false], array[p_name], array[p_us], null)::pgrab_internal.outcomes, 1, 'n1') f
  where t.id = p_id
$$;
create function pg_temp.row_of(p_id bigint) returns text language sql as $$
  select concat_ws(' ', t.status, case when t.due_at <= clock_timestamp() then 'due' end, 'attempt',
    t.attempt, 'for ' || w.name, w.until - w.since, case when w.goes_on then 'goes on' end)
  from pgrab.task t left join pgrab.wait w on w.task_id = t.id where t.id = p_id
$$;
create function pg_temp.waits(p_id bigint, p_name text default 'go', p_us bigint default null)
returns text language sql volatile as $$
  select pg_temp.run(p_id);
  select pg_temp.ends_as(p_id, 'waited', p_name, p_us);
  select pg_temp.row_of(p_id);
$$;
create function pg_temp.steps(p_id bigint) returns text language sql as $$
  select string_agg(s.name || ' ' || s.result, ', ' order by s.name)
  from pgrab.step s where s.task_id = p_id
$$;
create function pg_temp.asked(p_id bigint, p_name text) returns text language sql as $$
  select r.state || coalesce(' ' || r.result, '') from pgrab.task t cross join lateral
    pgrab_internal.steps_record(array[t.id], array[t.version], array[t.incarnation], array['wait:' || p_name],
      array[null::text]) r where t.id = p_id
$$;
create function pg_temp.over(p_id bigint) returns bigint language sql as $$
  update pgrab.wait set until = now() - interval '1 s', since = now() - interval '61 s' where task_id = p_id;
  select over from pgrab_internal.waits_tick()
$$;

-- the signal comes
select is(pg_temp.waits(1), 'waiting attempt 0 for go goes on', 'its run ends; it waits');
select is((select row(outcome, ended, error, output, attempt)::text from pgrab.run where task_id = 1),
  '(waited,,"waits for signal go","so far",1)', 'the history has the run');
select is((select row(runs, failures, last_outcome)::text from pgrab.task where id = 1), '(0,0,)',
  'which is none that has ended');
select is((select why from pgrab.why(1) as why), 'waits for signal ''go''', 'it says what it waits for');
select matches((select detail from pgrab.explain(1) where gate = 'signal'),
  '^Its handler waits since .* for signal ''go'': select pgrab.signal\(1, ''go''\) sends it.$',
  'and since when');
select is((select waits_for from pgrab.waits where id = 1), 'go', 'so does the view');
select throws_like($$select pgrab.run_now(1)$$, 'task 1 is waiting', 'run_now does not replace the signal');
select pgrab.pause(1), pgrab.resume(1);
select is(pg_temp.row_of(1), 'waiting attempt 0 for go goes on', 'a pause changes nothing');
select is((select count(*) from pgrab.signal(1, 'other')), 1::bigint, 'another signal is kept');
select is(pg_temp.row_of(1), 'waiting attempt 0 for go goes on', 'and does not wake it');
select is((select count(*) from pgrab.signal(1, 'go', '{"by": "ann"}')), 1::bigint, 'its signal comes');
select is(pg_temp.row_of(1), 'scheduled due attempt 0', 'and it is due');
select is(pg_temp.steps(1), 'wait:go {"payload": {"by": "ann"}}', 'the step is there');
select is((select count(*) from pgrab.signal(1, 'go', '{"by": "bob"}')), 0::bigint,
  'the first of a name counts');
select pg_temp.run(1);
select is((select attempt from pgrab.task where id = 1), 1, 'the next run is the same attempt');
select is(pg_temp.asked(1, 'go'), 'recorded {"payload": {"by": "ann"}}', 'and finds what came');
select is(pg_temp.asked(1, 'other'), 'recorded {"payload": null}', 'a kept signal is a step when asked for');
select is(pg_temp.asked(1, 'third'), 'none', 'one that has not come is none');
select is(pg_temp.ends_as(1, 'succeeded'), 1::bigint, 'it succeeds');
select is((select row(r.outcome, r.ended, jsonb_array_length(r.signals))::text from pgrab.run r
  where r.task_id = 1 and r.ended is not null), '(succeeded,done,2)', 'the history has the signals');
select is_empty('select from pgrab.signal where task_id = 1 union all select from pgrab.step where task_id = 1
  union all select from pgrab.wait where task_id = 1', 'and nothing is left of it');

-- its time is over
select is(pg_temp.waits(2, 'go', 60000001), 'waiting attempt 0 for go 00:01:00.000001 goes on',
  'with a time');
select is((select over from pgrab_internal.waits_tick()), 0::bigint, 'which is not over yet');
select is(pg_temp.over(2), 1::bigint, 'then it is');
select is(pg_temp.row_of(2) || ' ' || pg_temp.steps(2), 'scheduled due attempt 0 wait:go {"timed_out": true}',
  'the fire goes on');
select is((select count(*) from pgrab.signal(2, 'go')), 0::bigint, 'a signal that comes too late is none');
select is(pg_temp.waits(2), 'scheduled due attempt 0', 'one that waits for what is over goes on at once');
select pg_temp.run(2), pg_temp.ends_as(2, 'failed');
select is((select status || attempt from pgrab.task where id = 2), 'parked1',
  'an attempt that fails is counted');

-- signals that come first
select is((select count(*) from pgrab.signal(3, 'go', '7')), 1::bigint, 'before it runs');
select is(pg_temp.waits(3), 'scheduled due attempt 0', 'then it goes on at once');
select is(pg_temp.steps(3), 'wait:go {"payload": 7}', 'with the signal');
-- Where each run of a batch has a null, a node sends null instead of an array of nulls.
select pgrab.signal(12, 'go', '8');
select pg_temp.run(11), pg_temp.run(12);
select pgrab_internal.finish((array_agg(t.id), array_agg(t.version), '{11,11}', '{2000,2000}', '{1000,1000}',
  '{waited,waited}', null, null, null, '{go,go}', null, null)::pgrab_internal.outcomes, 1, 'n1')
from (select id, version from pgrab.task where id in (11, 12) order by id) t;
select is(pg_temp.row_of(11) || ', ' || pg_temp.row_of(12),
  'waiting attempt 0 for go goes on, scheduled due attempt 0', 'of two runs the second need not wait');
select pgrab.signal(4, 'unasked');
select pg_temp.run(4), pg_temp.ends_as(4, 'succeeded');
select is_empty('select from pgrab.signal where task_id = 4',
  'what nobody asks for is forgotten with its fire');

-- the fence; who may not wait
select pg_temp.run(7);
select is(pg_temp.ends_as(7, 'waited', 'go', null, -1), 0::bigint, 'an old run does not wait');
select is((select status from pgrab.task where id = 7) || (select count(*) from pgrab.wait where task_id = 7),
  'running0', 'nor does anything change');
select is(pg_temp.waits(6), 'parked attempt 1', 'at_most_once cannot wait');
select is((select split_part(error, ':', 1) from pgrab.run where task_id = 6),
  'a task with delivery at_most_once cannot wait in its run, because it would be started again',
  'and says so');
update pgrab.task set steps = 1000 where id = 8;
select pg_temp.waits(8);
select is(pg_temp.row_of(8) || ': ' || (select error from pgrab.run where task_id = 8),
  'parked attempt 1: it cannot wait: the fire has done 1000 steps', 'waits are counted as steps');
select throws_like($$insert into pgrab.task (kind, signal_by) values ('noop', 'x')$$,
  'task signal_by cannot be%', 'signal_by needs a signal, or a handler');

-- what people do
select pg_temp.waits(9);
select pgrab.cancel(9);
select is((select outcome from pgrab.run where task_id = 9 and ended is not null) || (
  select count(*) from pgrab.wait where task_id = 9), 'cancelled0', 'a cancel ends the fire');
update pgrab.task set run_at = now() - interval '1 minute' where id = 5;
select is(pg_temp.waits(5), 'waiting attempt 0 for go goes on', 'a schedule');
update pgrab.task set wait_for = 'first' where id = 5;
select is(pg_temp.row_of(5), 'waiting attempt 0 for go goes on', 'an edit of wait_for is for its next fire');
select is_empty('select from pgrab.result(5)', 'which has no result before its end');

-- a fire that waits in the middle has begun
insert into pgrab.task (id, kind, schedule, max_runs) overriding system value
values (13, 'order', '@daily', 2), (14, 'order', '@daily', 2);
update pgrab.task set run_at = now() - interval '1 minute' where id in (13, 14);
select pg_temp.waits(13);
select pgrab.cancel(13);
select is((select fires from pgrab.task where id = 13), 1::bigint, 'one that is given up counts');
select pg_temp.waits(14);
select pgrab.signal(14, 'go');
select is(pg_temp.row_of(14), 'scheduled due attempt 0', 'also when it is about to go on');
select pgrab.skip_next(14);
select is((select fires from pgrab.task where id = 14), 1::bigint, 'one that is skipped, too');
select is((select runs from pgrab.task where id = 14), 0::bigint, 'although no run of it has ended');

-- the history of what came between two runs
select pg_temp.waits(10);
select pgrab.signal(10, 'go');
select pg_temp.waits(10, 'other');
select pgrab.signal(10, 'other');
select pg_temp.run(10), pg_temp.ends_as(10, 'succeeded');
select is((select array_agg((select string_agg(s ->> 'name', ' ') from jsonb_array_elements(r.steps) s)
    order by r.version) from pgrab.run r where r.task_id = 10), '{NULL,wait:go,wait:other}',
  'each is with the run that found it, once');

-- a link
select pg_temp.fresh();
insert into pgrab.task (id, kind, parent_id) overriding system value
values (20, 'noop', null), (21, 'order', 20), (22, 'noop', 21);
select pg_temp.ends(20);
select pg_temp.waits(21);
select pgrab.signal(21, 'go');
select pg_temp.run(21), pg_temp.ends_as(21, 'succeeded');
select is(pg_temp.chain(), '20+ 21+ 22!', 'a link that has waited in its run continues its chain');
insert into pgrab.task (id, kind, parent_id, run_if, max_attempts) overriding system value
values (30, 'noop', null, 'success', 1), (31, 'order', 30, 'always', 1);
select pg_temp.ends(30, 'failed');
select is(pg_temp.waits(31), 'waiting attempt 0 for go goes on', 'a link waits');
select pgrab.retry(30);
select is(pg_temp.row_of(31), 'waiting attempt 0 for go goes on', 'also while its parent is tried again');
update pgrab.task set fire_at = fire_at - interval '1 minute' where id = 31;
insert into pgrab.step (task_id, fire_at, name, version) select id, fire_at, 'pay', version from pgrab.task
where id = 31;
update pgrab.task set parent_id = null where id = 31;
select is(pg_temp.row_of(31), 'waiting attempt 0 for go goes on', 'and when it has lost its last parent');
select pgrab.signal(31, 'go');
select is(pg_temp.row_of(31), 'scheduled due attempt 0', 'its signal lets it go on');
select is((select count(*) from pgrab.step where task_id = 31), 2::bigint, 'with its steps');

-- the root of a chain that fires again
insert into pgrab.task (id, kind, parent_id, schedule) overriding system value
values (40, 'order', null, '@daily'), (41, 'noop', 40, null);
update pgrab.task set run_at = now() - interval '1 minute' where id = 40;
select is(pg_temp.waits(40), 'waiting attempt 0 for go goes on', 'a root waits');
select is(pgrab_internal.chain_under_way((select chain from pgrab.task where id = 40)), true,
  'its chain has begun');
select pgrab.cancel(40);
select is((select outcome from pgrab.run where task_id = 41), 'cancelled', 'a cancel ends that run of it');
select * from finish();
rollback;
