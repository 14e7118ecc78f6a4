-- Signals: who waits, what comes first, what comes too late, and what becomes of waits in vain.
begin;
select plan(70);
set local timezone = 'UTC';
\ir chain.inc
create function pg_temp.row_of(p_id bigint) returns text language sql as $$
  select t.status || case when t.due_at is null then '' when t.due_at > now() + interval '1 day' then ' later'
    else ' due' end || coalesce(' until ' || (w.until - w.since)::text, ' waits' || left(w.name, 0), '')
  from pgrab.task t left join pgrab.wait w on w.task_id = t.id where t.id = p_id
$$;
create function pg_temp.sent(p_id bigint, p_name text default 'go', p_payload jsonb default null)
returns bigint language sql as $$
  select count(*) from pgrab.signal(p_id, p_name, p_payload)
$$;
-- The waits of these tasks are over.
create function pg_temp.over(p_id bigint default null) returns bigint language sql as $$
  update pgrab.wait set until = now() - interval '1 s', since = now() - interval '61 s'
  where until is not null and task_id = coalesce(p_id, task_id);
  select over from pgrab_internal.waits_tick()
$$;

-- ------------------------------------------------------------------------------------------------- one-shots
insert into pgrab.task (id, kind, wait_for, wait_timeout, run_at) overriding system value values
  (1, 'noop', 'go', '4 hours', default), (2, 'noop', 'go', null, default),
  (3, 'noop', 'go', '1 hour', '2100-01-01'), (4, 'noop', null, null, default);
alter table pgrab.task alter id restart with 1001;
select is(pg_temp.row_of(1), 'waiting until 04:00:00', 'it waits, and is not due');
select is(pg_temp.row_of(2), 'waiting waits', 'for ever');
select is((select since from pgrab.wait where task_id = 3), '2100-01-01',
  'the time-out counts from the planned time');
select is(pg_temp.row_of(4), 'scheduled due', 'without wait_for nothing is different');
select matches((select detail from pgrab.explain(1) where gate = 'signal'),
  '^Waits for signal ''go'' until \S+ \S+: select pgrab.signal\(1, ''go''\) sends it\.$', 'it is told');
insert into pgrab.task (id, kind, wait_for, signal_by) overriding system value
values (5, 'noop', 'go', 'boss');
select is((select detail from pgrab.explain(5) where gate = 'signal'),
  'Waits for signal ''go'': select pgrab.signal(5, ''go'') sends it; so may members of boss, a role that '
  'does not exist.', 'who may, and that nobody can');
update pgrab.task set signal_by = current_user where id = 5;
select is((select detail from pgrab.explain(5) where gate = 'signal'), 'Waits for signal ''go'': select '
  'pgrab.signal(5, ''go'') sends it; so may members of ' || current_user || '.', 'or who can');
delete from pgrab.task where id = 5;
select is((select count(*) from pgrab.wait), 3::bigint, 'and nothing is written');
select is(pg_temp.sent(2, 'go', '{"by": "ann"}'), 1::bigint, 'a signal');
select is(pg_temp.row_of(2), 'scheduled due', 'makes it due');
select is_empty('select from pgrab.wait where task_id = 2', 'it waits no more');
select is(pg_temp.sent(2, 'go', '{"by": "bob"}'), 0::bigint, 'the first of a name counts');
select is((select payload ->> 'by' from pgrab.signal where task_id = 2), 'ann', 'and is kept');
select is((select string_agg(task_id || ' ' || node, ', ' order by task_id) from pgrab.forecast()
  where task_id < 4), '1 (waits for signal go), 2 (no node can)', 'the forecast has what waits, too');
select is(pg_temp.sent(3), 1::bigint, 'a signal that comes first');
select is(pg_temp.row_of(3), 'scheduled later', 'is kept: the task keeps its time');
select throws_ok($$select pgrab.signal(1, 'gone')$$, '22023', 'task 1 does not wait for signal ''gone''',
  'a signal that it does not wait for is refused');
select throws_ok($$select pgrab.signal(4, 'go')$$, '22023', 'task 4 does not wait for signal ''go''',
  'and one for a task that waits for none');
select throws_ok($$select pgrab.signal(1, 'a b')$$, '22023', 'the name of a signal cannot be ''a b''',
  'so is a bad name');
select throws_like($$select pgrab.signal(1, 'go', to_jsonb(repeat('x', 65536)))$$,
  'the payload of a signal cannot be % bytes long', 'and a payload that is too long');
select throws_like($$select pgrab.signal(99, 'go')$$, 'task 99 does not exist', 'and an unknown task');
select throws_like($$insert into pgrab.task (kind, wait_for) values ('noop', 'a b')$$,
  'task wait_for cannot be ''a b''', 'a task cannot wait for a bad name');
select throws_like($$insert into pgrab.task (kind, wait_timeout) values ('noop', '1 h')$$,
  'task wait_timeout cannot be%', 'nor have a time-out without one');

-- ------------------------------------------------------------------------------------------------ its run
select is(pgrab_internal.args_for(2, null, 'shell', '{}', 'go'),
  '{}3:env,26:PGRAB_SIGNAL={"by": "ann"},', 'a process finds it in its environment');
select is(pgrab_internal.args_for(2, null, 'sql', '{"params": [1]}', 'go'),
  '{"params": [1]}6:signal,13:{"by": "ann"},', 'kind sql gets it beside its params');
select is(pgrab_internal.args_for(2, null, 'http', '{}', 'go'), '{"body": "{\"by\": \"ann\"}"}',
  'a request that has no body gets it as its body');
select is(pgrab_internal.args_for(2, null, 'http', '{"body": "x"}', 'go'), '{"body": "x"}',
  'one that has a body keeps that');
select is(pgrab_internal.args_for(3, null, 'http', '{}', 'go'), '{}', 'no payload, no body');
select pg_temp.ends(2, 'failed');
select is(pg_temp.row_of(2), 'parked', 'it failed');
select is((select count(*) from pgrab.retry(2)), 1::bigint, 'a retry of the same fire');
select is(pg_temp.row_of(2), 'scheduled due', 'does not ask again');
select pg_temp.ends(2);
select is((select signals -> 0 ->> 'role' || (signals -> 0 -> 'payload') from pgrab.run
  where task_id = 2 and ended = 'done'), current_user || '{"by": "ann"}', 'the history says who sent what');
select is_empty('select from pgrab.signal where task_id = 2', 'and what came is forgotten');
select is((select detail ->> 'signal' from pgrab.event where task_id = 2 and what = 'signal'), 'go',
  'the events have it, too');
select is((select detail -> 'payload' from pgrab.event where task_id = 2 and what = 'signal'),
  '{"by": "ann"}', 'with its payload as JSON');
select is(pgrab_internal.signal_detail('go', to_jsonb(repeat('x', 300))),
  jsonb_build_object('signal', 'go', 'payload_begins', '"' || repeat('x', 199)), 'or, cut, as text');

-- ------------------------------------------------------------------------------------------- waits in vain
update pgrab.task set on_failure = '{"kind": "noop"}' where id = 1;
select is(pg_temp.over(3), 0::bigint, 'what waits no more cannot time out');
select is(pg_temp.over(1), 1::bigint, 'the time is over');
select is((select row(status, last_outcome, last_error, attempt, failures)::text from pgrab.task
  where id = 1),
  '(parked,timed_out,"signal go did not come within 00:01:00",0,1)', 'the fire ends as timed_out');
select is((select event from pgrab_internal.notice where task_id = 1), 'parked', 'people are told');
select is((select detail from pgrab.explain(1) where gate = 'parked'), 'Its wait was in vain: signal go did '
  'not come within 00:01:00. select pgrab.retry(1) tries it again.', 'and see why');
select throws_like('select pgrab.signal(1, ''go'')', 'the wait of task 1 for signal ''go'' is over',
  'a signal comes too late for it');
select pgrab.retry(1);
select is(pg_temp.row_of(1), 'waiting until 04:00:00', 'when it is tried again, it waits again');

-- ------------------------------------------------------------------- waits that are over, and nobody noticed
create function pg_temp.passes(p_id bigint) returns void language sql as $$
  update pgrab.wait set until = clock_timestamp() - interval '1 s' where task_id = p_id
$$;
insert into pgrab.kind (kind, summary, handled) values ('order', 'tests', true);
insert into pgrab.task (id, kind, schedule, wait_for, wait_timeout) overriding system value values
  (6, 'noop', null, 'go', '1 hour'), (7, 'noop', '@daily', 'go', '1 hour'), (8, 'order', null, null, null);
select pg_temp.passes(6), pg_temp.passes(7);
select throws_ok('select pgrab.signal(6, ''go'')', '55000', 'the wait of task 6 for signal ''go'' is over',
  'a signal after the time-out is refused, whether a node has noticed or not');
select is(pg_temp.row_of(6) || (select count(*) from pgrab.signal where task_id = 6),
  'waiting until ' || (select until - since from pgrab.wait where task_id = 6) || '0', 'and changes nothing');
select throws_like('select pgrab.signal(7, ''go'')', '% is over', 'also for a schedule');
select pgrab_internal.waits_tick();
select is((select status from pgrab.task where id = 6), 'parked', 'when a node has');
select throws_like('select pgrab.signal(6, ''go'')', '% is over', 'it is refused as before');
select pgrab.retry(6);
select is(pg_temp.sent(6), 1::bigint, 'tried again, it waits for a signal of its own');
select is(pg_temp.row_of(6), 'scheduled due', 'with which it starts');
select pg_temp.ends(6, 'timed_out');
select is((select status from pgrab.task where id = 6), 'parked', 'a run that takes too long');
select is(pg_temp.sent(6), 0::bigint, 'has had its signal');
select is(pg_temp.sent(7), 1::bigint, 'the next fire of a schedule has its own signal');
select is(pg_temp.row_of(7), 'scheduled later', 'for which it does not wait');
update pgrab.task set status = 'running', version = version + 1, node_id = 1, incarnation = 11, attempt = 1,
  claimed_at = now(), started_at = now() where id = 8;
select pgrab_internal.finish((array[t.id], array[t.version], array[11], array[2000], array[1000],
  array['waited'], array[null]::int[], array[null]::text[], array[false], array['go'],
  array[60000000], null)::pgrab_internal.outcomes, 1, 'n1') from pgrab.task t where t.id = 8;
select pg_temp.passes(8);
select is(pg_temp.sent(8), 0::bigint, 'a signal that comes too late for a handler is none');
select is(pg_temp.sent(8, 'other'), 1::bigint, 'another is kept');
select pgrab_internal.waits_tick();
select is((select result from pgrab.step where task_id = 8), '{"timed_out": true}', 'it goes on without');

-- ------------------------------------------------------------------------------------------------- schedules
insert into pgrab.task (id, kind, schedule, wait_for, wait_timeout) overriding system value
values (10, 'noop', '@daily', 'go', '1 hour');
select is(pg_temp.sent(10), 1::bigint, 'a schedule may get the signal for its next fire in advance');
select pg_temp.ends(10);
select is(pg_temp.row_of(10), 'waiting until 01:00:00', 'each fire needs its own');
select is_empty('select from pgrab.signal where task_id = 10', 'the last one does not count');
select pg_temp.over(10);
select is((select status || fires || last_outcome from pgrab.task where id = 10), 'waiting2timed_out',
  'when it does not come, the next fire is planned');
select pgrab.skip_next(10);
select is(pg_temp.row_of(10), 'waiting until 01:00:00', 'a fire that waits can be skipped');

-- -------------------------------------------------------------------------------------------------- control
select throws_like($$select pgrab.run_now(1)$$, 'task 1 is waiting', 'run_now does not replace the signal');
select pgrab.pause(1);
select pg_temp.sent(1);
select is(pg_temp.row_of(1), 'scheduled', 'a paused task gets its signal, and is not due');
update pgrab.task set wait_for = 'other' where id = 10;
select is((select name from pgrab.wait where task_id = 10), 'other', 'an edit says what it waits for');
update pgrab.task set wait_for = null, wait_timeout = null where id = 10;
select is(pg_temp.row_of(10), 'scheduled later', 'or that it waits no more');
delete from pgrab.task where id = 1;
select is_empty('select from pgrab.signal where task_id = 1', 'what is deleted leaves nothing behind');

-- ------------------------------------------------------------------------------------------------- approval
insert into pgrab.task (id, kind, wait_for, wait_timeout, parent_id, run_if) overriding system value values
  (20, 'noop', null, null, null, 'success'), (21, 'noop', 'approved', '1 hour', 20, 'success'),
  (22, 'noop', null, null, 21, 'success'), (23, 'noop', null, null, 21, 'failure');
select is_empty('select from pgrab.wait where task_id = 21', 'a link waits for its parents first');
select pg_temp.ends(20);
select is(pg_temp.row_of(21), 'waiting until 01:00:00', 'then for the signal');
select pg_temp.over(21);
select is((select string_agg(id || status, ' ' order by id) from pgrab.task where id > 20),
  '21parked 22skipped 23scheduled', 'its time-out is a failure');
select * from finish();
rollback;
