-- What people are told of tasks: pgrab.alert and on_failure.
begin;
\ir alert.inc
select plan(77);
set local timezone = 'UTC';

insert into pgrab.task (id, key, kind, schedule, max_attempts) overriding system value values
  (1, 'nightly', 'noop', '@every 1h', 1);
insert into pgrab.alert (name, template) values ('all', '{"kind": "notify", "command": "all"}');
select is((select a.set_by = current_user and a.events = '{failed,parked,recovered}' from pgrab.alert a),
  true, 'an alert with its defaults');
select pg_temp.ends(1, 'failed');
select is(pg_temp.told(), 'all nightly failed: boom', 'one row of pgrab.alert tells of a failure');
select is((select (a.name, a.kind, a.owner, a.status)::text from pgrab.task a where a.source = 'pgrab.alert'),
  format('("alert: nightly",notify,%s,scheduled)', current_user), 'by an ordinary task');
select pg_temp.ends(1, 'failed', 'again');
select is(pg_temp.told(), 'all nightly failed: boom', 'once per incident');
select pg_temp.ends(1, 'succeeded');
select matches(pg_temp.told(),
  '^all nightly failed: boom; all nightly has recovered: 2 failures since \S+ \S+$',
  'and once when it is over');
delete from pgrab.task where source = 'pgrab.alert';
select pg_temp.ends(1, 'succeeded');
select is(pg_temp.told(), null, 'not again');
insert into pgrab.task (id, name, kind, max_attempts) overriding system value values (4, 'load', 'noop', 2);
select pg_temp.ends(4, 'failed');
select is(pg_temp.told(), null, 'nor of a try');
select pg_temp.ends(4, 'lost', 'its node died');
select is(pg_temp.told(), 'all load is parked after 2 of 2 attempts: its node died', 'a parked task');
select pgrab.retry(4);
select pg_temp.ends(4, 'succeeded');
select matches(pg_temp.told(), '; all load has recovered: 1 failure since', 'that was retried and has left');
delete from pgrab.task where source = 'pgrab.alert';
select pg_temp.ends(1, 'failed');
update pgrab.task set status = 'running', node_id = 1, incarnation = 11, version = 8 where id = 1;
select pgrab_internal.finish((array[1], array[7], array[11], array[2000000], array[1000000],
  array['succeeded'], null, null, null, null, null, null)::pgrab_internal.outcomes, 1, 'n1');
select is((select count(*) from pgrab.incident where task_id = 1), 1::bigint,
  'a finish that came too late ends no incident');
update pgrab.task set status = 'scheduled', node_id = null, incarnation = null where id = 1;
select pg_temp.ends(1, 'succeeded');
delete from pgrab.task where source = 'pgrab.alert';

-- who is told of what
delete from pgrab.alert;
insert into pgrab.alert (name, task_like, source, owner, events, enabled, template) values
  ('a', 'n%', null, null, '{failed}', true, '{"kind": "notify", "command": "a"}'),
  ('b', null, 'etl', null, '{failed}', true, '{"kind": "notify", "command": "b"}'),
  ('c', null, null, 'nobody', '{failed}', true, '{"kind": "notify", "command": "c"}'),
  ('d', null, null, null, '{parked}', true, '{"kind": "notify", "command": "d"}'),
  ('e', null, null, null, '{failed}', false, '{"kind": "notify", "command": "e"}');
select pg_temp.ends(1, 'failed');
select is(pg_temp.told(), 'a nightly failed: boom',
  'by name, source, owner and event; not when it is switched off');
select pg_temp.ends(1, 'succeeded');
update pgrab.task set source = 'etl', key = 'x' where id = 1;
delete from pgrab.task where source = 'pgrab.alert';
select pg_temp.ends(1, 'failed');
select is(pg_temp.told(), 'b x failed: boom', 'by source');
select pg_temp.ends(1, 'succeeded');
delete from pgrab.task where source = 'pgrab.alert';
delete from pgrab.alert;

-- on_failure
update pgrab.task set on_failure = '{"kind": "shell", "command": "page", "name": "page me", "priority": 50, '
  '"args": {"env": {"TO": "ops", "WHAT": "{{task}}: {{error}}"}}}'
where id = 1;
select pg_temp.ends(1, 'failed', E'a "quoted"\nline $(reboot)');
select is((select (a.name, a.kind, a.command, a.priority)::text from pgrab.task a
    where a.source = 'pgrab.alert'), '("page me",shell,page,50)', 'on_failure inserts a task');
select is((select a.args -> 'env' ->> 'TO' from pgrab.task a where a.source = 'pgrab.alert'), 'ops',
  'with its own environment');
select is((select a.args -> 'env' ->> 'WHAT' from pgrab.task a where a.source = 'pgrab.alert'),
  E'x: a "quoted"\nline $(reboot)', 'facts where the template names them');
select is((select a.args -> 'env' ->> 'PGRAB_ALERT_EVENT' from pgrab.task a where a.source = 'pgrab.alert'),
  'failed', 'facts in the environment');
select is((select a.args -> 'env' ->> 'PGRAB_ALERT_ID' from pgrab.task a where a.source = 'pgrab.alert'), '1',
  'as text');
select alike((select a.args ->> 'stdin' from pgrab.task a where a.source = 'pgrab.alert'),
  E'x failed: a "quoted"\nline $(reboot)\n\ndatabase: %', 'and a mail on stdin');
select pg_temp.ends(1, 'succeeded');
select is((select count(*) from pgrab.task a where a.source = 'pgrab.alert'), 1::bigint,
  'on_failure says nothing of a recovery');
delete from pgrab.task where source = 'pgrab.alert';
update pgrab.task
set on_failure = '{"kind": "http", "command": "http://localhost/", "events": ["failed", "recovered"]}'
where id = 1;
select pg_temp.ends(1, 'failed'), pg_temp.ends(1, 'succeeded');
select is(
  (select string_agg((a.args -> 'body' ->> 'event') || ' ' || (a.args ->> 'method'), ', ' order by a.id)
    from pgrab.task a where a.source = 'pgrab.alert'),
  'failed POST, recovered POST', 'unless it asks for it; http posts the facts');
delete from pgrab.task where source = 'pgrab.alert';
update pgrab.task set on_failure = '{"kind": "sql", "command": "insert into log select $1"}' where id = 1;
select pg_temp.ends(1, 'failed');
select is((select (a.args -> 'params' ->> 0)::jsonb ->> 'error' from pgrab.task a
    where a.source = 'pgrab.alert'), 'boom', 'sql gets them as a parameter');
update pgrab.task set max_attempts = 1 where source = 'pgrab.alert';
select pg_temp.ends((select id from pgrab.task where source = 'pgrab.alert'), 'failed');
select is((select count(*) from pgrab.task where source = 'pgrab.alert'), 1::bigint,
  'of an alert that fails nobody is told');
select pg_temp.ends(1, 'succeeded');
delete from pgrab.task where source = 'pgrab.alert';

-- what cannot be
select throws_ok($$insert into pgrab.task (kind, on_failure) values ('noop', '[]')$$, '22023',
  'the template of an alert cannot be ''[]''', 'no object');
select throws_ok($$insert into pgrab.task (kind, on_failure) values ('noop', '{"schedule": "@daily"}')$$,
  '22023', 'the template of an alert cannot be ''schedule''', 'no schedule');
select throws_ok($$insert into pgrab.task (kind, on_failure) values ('noop', '{"kind": "shell"}')$$, '22023',
  'task command cannot be ''''', 'no task');
select throws_ok(
  $$update pgrab.task set on_failure = '{"kind": "noop", "events": ["overdue"]}' where id = 1$$,
  '22023', 'the template of an alert cannot be ''["overdue"]''', 'no such event');
select throws_ok($$insert into pgrab.alert (name, events, after, template)
  values ('x', '{waiting}', '10000 years', '{"kind": "noop"}')$$, '23514');
select throws_ok($$insert into pgrab.alert (name, template) values ('x', '{"kind": "ruby"}')$$, '22023',
  'task kind cannot be ''ruby''', 'nor in an alert');
select throws_ok($$insert into pgrab.alert (name, template, events)
    values ('x', '{"kind": "noop"}', '{boom}')$$, '23514', null, 'nor another event');
insert into pgrab.limit (key, max_running) values ('gone', 1);
update pgrab.task set on_failure = '{"kind": "noop", "limit_key": "gone"}' where id = 1;
delete from pgrab.limit;
set local client_min_messages = error;
select pg_temp.ends(1, 'failed');
select is((select (t.last_outcome, i.fault)::text from pgrab.task t
    join pgrab.incident i on i.task_id = t.id), '(failed,"task limit_key cannot be ''gone''")',
  'an alert that cannot be inserted does not undo the finish');
select pg_temp.ends(1, 'succeeded');
update pgrab.task set on_failure = null where id = 1;

-- overdue, told once
insert into pgrab.task (id, key, kind, schedule, expect_within) overriding system value values
  (10, 'backup', 'noop', '@every 1h', '1 day'), (11, 'young', 'noop', '@every 1h', '1 day');
update pgrab.task set created_at = now() - interval '25 hours' where id = 10;
select is(pgrab_internal.overdue_tick(), 0::bigint, 'nobody looks for what is overdue');
insert into pgrab.alert (name, events, template) values
  ('overdue', '{overdue,recovered}', '{"kind": "notify", "command": "overdue"}');
delete from pgrab.incident;
select is(pgrab_internal.overdue_tick(), 1::bigint, 'until somebody wants to know: one is overdue');
update pgrab.duty set done_at = '-infinity' where duty = 'overdue';
select is(pgrab_internal.overdue_tick(), 0::bigint, 'once');
select is(pg_temp.told(), 'overdue backup is overdue: no success within 1 day', 'and is told of');
select is_empty('select * from pgrab.incident where event = ''overdue'' and failures > 0',
  'overdue is no failure');
select pg_temp.ends(10, 'succeeded');
select matches(pg_temp.told(), '; overdue backup has recovered: it was overdue since', 'so is its recovery');
select is((select count(*) from pgrab.task where command like '%alert_late%'), 0::bigint,
  'no task that somebody else may own does the search');
delete from pgrab.task where source = 'pgrab.alert';
delete from pgrab.alert;

-- a wait for longer than an alert permits
insert into pgrab.registration (id, name, host, pid, pgrab_version, strategy, slots, heartbeat_every,
  dead_after, started_at) overriding system value
values (77, 'n77', 'h', 1, '1', 'id_hash', 8, '1 s', '20 s', now());
create function pg_temp.waited(p_id bigint, p_for interval) returns bigint language sql as $$
  update pgrab.wait set since = now() - p_for where task_id = p_id;
  update pgrab.duty set done_at = '-infinity' where duty = 'waiting';
  select pgrab_internal.waiting_tick()
$$;
insert into pgrab.task (id, key, kind, command, wait_for) overriding system value values
  (12, 'release', 'noop', '', 'approved'), (13, 'other', 'noop', '', 'approved'),
  (14, 'invoices', 'batch', '', null), (15, 'thumbs', 'http', 'http://x/', null);
update pgrab.task set status = 'waiting', due_at = null, node_id = 77, incarnation = 11, started_at = now(),
  claimed_at = now(), args = '{"await": true}' where id = 15;
select pgrab_internal.waits_begin('{15}');
select pg_temp.waited(g, '2 hours') from generate_series(12, 15) g;
select is((select count(*) from pgrab.wait where told <> '0'), 0::bigint, 'nobody looks for long waits');
insert into pgrab.alert (name, events, after, task_like, template) values
  ('chat', '{waiting}', '1 hour', null, '{"kind": "notify", "command": "chat"}'),
  ('page', '{waiting,failed}', '1 day', 'release', '{"kind": "notify", "command": "page"}');
select pg_temp.waited(13, '59 minutes');
select is(regexp_replace(pg_temp.told(), ' since [0-9]{4}-[-+0-9: ]+', '', 'g'),
  'chat release waits for signal ''approved''; chat invoices waits for its members; '
  'chat thumbs waits for the answer to its request',
  'until an alert asks for it: a signal, members, an answer');
select is(pg_temp.waited(13, '1 second'), 0::bigint, 'each once');
delete from pgrab.task where source = 'pgrab.alert';
select is(pg_temp.waited(12, '25 hours'), 1::bigint, 'once more for another time');
select matches(pg_temp.told(), '^page release waits for signal ''approved'' since \S+ \S+$', 'of its alert');
select is(pg_temp.waited(12, '49 hours'), 0::bigint, 'and no more');
select is(pg_temp.waited(13, '25 hours'), 1::bigint, 'one that is for no alert with that time');
select matches(pg_temp.told(), '; chat other waits for signal ''approved'' since \S+ \S+$',
  'is told of by the others');
delete from pgrab.task where source = 'pgrab.alert';
update pgrab.task set wait_timeout = '100 days' where id = 12;
select is(pg_temp.waited(12, '50 hours'), 0::bigint, 'an edit begins no wait');
update pgrab.task set run_at = '2100-01-01' where id = 12;
update pgrab.task set run_at = now() where id = 12;
select is(pg_temp.waited(12, '61 minutes'), 1::bigint, 'another time does');
select is((select (n.facts ->> 'event', n.facts ->> 'after', n.facts ->> 'error')::text
    from pgrab_internal.notice n), '(waiting,01:00:00,"waits for signal ''approved''")', 'the facts say so');
delete from pgrab_internal.notice;
select pgrab.signal(12, 'approved');
select is(pg_temp.waited(12, '90 days'), 0::bigint, 'what waits no more is not told of');
select throws_ok($$insert into pgrab.alert (name, template, events) values ('x', '{"kind": "noop"}',
  '{waiting}')$$, '23514', null, 'it needs a time');
select throws_ok($$insert into pgrab.alert (name, template, after) values ('x', '{"kind": "noop"}', '1 h')$$,
  '23514', null, 'and only it');
delete from pgrab.task where id between 12 and 15;
delete from pgrab.alert;

-- missed
insert into pgrab.task (id, key, kind, schedule, misfire) overriding system value values
  (20, 'hourly', 'noop', '@every 1h', 'skip');
insert into pgrab.alert (name, events, template) values
  ('missed', '{missed}', '{"kind": "notify", "command": "missed"}');
create function pg_temp.misses() returns bigint language sql as $$
  update pgrab.task set due_at = now() - interval '1 hour', fire_at = now() - interval '1 hour',
    run_at = now() - interval '1 hour' where id = 20;
  select pgrab_internal.misfire(array[t.id], array[t.version]) from pgrab.task t where t.id = 20
$$;
select is(pg_temp.misses(), 1::bigint, 'a fire is missed');
select matches(pg_temp.told(), '^missed hourly missed the fire of \S+ \S+: no node could run it',
  'it is told of');
select is((select (e.what, e.task, split_part(e.detail ->> 'why', ';', 1))::text from pgrab.event e
    where e.task_id = 20 and e.what = 'missed'),
  '(missed,hourly,"no node could run it within misfire_after")', 'and an event');
select pg_temp.misses();
select is((select count(*) from pgrab.event e where e.what = 'missed'), 1::bigint, 'once an hour');
delete from pgrab.task where source = 'pgrab.alert';
delete from pgrab.alert;

-- many alerts, and bad ones
select throws_ok($$insert into pgrab.alert (name, task_like, template) values
  ('x', '%\', '{"kind": "noop"}')$$,
  '22025', 'the pattern of alert ''x'' cannot be E''%\\''', 'a pattern that would fail for every task');
select throws_ok($$insert into pgrab.alert (name, node_like, template) values
  ('x', '\', '{"kind": "noop"}')$$,
  '22025', null, 'or node');
select throws_ok($$insert into pgrab.alert (name, task_like, template)
    values ('x', repeat('%_', 1001), '{"kind": "noop"}')$$, '22023',
  'the pattern of alert ''x'' cannot be 2002 bytes long', 'nor one that nodes would read for minutes');
select throws_ok($$insert into pgrab.alert (name, events, template)
    values ('x', array_fill('failed'::text, array[21]), '{"kind": "noop"}')$$, '23514', null, 'nor events');
select lives_ok($$insert into pgrab.alert (name, task_like, template) values
  ('x', '%\\', '{"kind": "noop"}')$$,
  'a backslash that is meant');
insert into pgrab.limit (key, max_running) values ('gone', 1);
insert into pgrab.alert (name, template)
select 'a' || i, case i when 13 then '{"kind": "noop", "limit_key": "gone"}'::jsonb
  else '{"kind": "notify", "command": "many"}' end
from generate_series(1, 99) i;
select throws_ok($$insert into pgrab.alert (name, template) values ('b', '{"kind": "noop"}')$$, '54000',
  format('alert ''b'' cannot be set: %s has 100 already', current_user), 'a role has a hundred at most');
delete from pgrab.limit;
select pg_temp.ends(1, 'failed', p_tell => false);
select is((select count(*) from pgrab.task where source = 'pgrab.alert'), 0::bigint,
  'the finish inserts none of them');
create function pg_temp.tell_all(out slices bigint) language plpgsql as $$
declare
  n record;
begin
  slices := 0;
  loop
    select * into n from pgrab_internal.notices_tell();
    slices := slices + n.told;
    exit when not n.left_over;
  end loop;
end $$;
select cmp_ok(pg_temp.tell_all(), '>=', 5::bigint, 'they come in slices');
select is((select count(*) from pgrab.task where source = 'pgrab.alert'), 98::bigint,
  'all but the one that cannot work');
select is((select i.fault from pgrab.incident i where i.task_id = 1), 'task limit_key cannot be ''gone''',
  'of which the incident says why');
select is((select (n.told, n.left_over)::text from pgrab_internal.notices_tell() n), '(0,f)', 'each once');

-- successes
delete from pgrab.task where source = 'pgrab.alert';
delete from pgrab.alert;
select throws_ok($$insert into pgrab.alert (name, events, template) values
  ('s', '{succeeded}', '{"kind": "noop"}')$$, '23514', null, 'not of all tasks: that would be many');
insert into pgrab.alert (name, events, task_like, template) values
  ('s', '{succeeded}', 'nightly', '{"kind": "notify", "command": "switch"}');
insert into pgrab.task (id, name, kind, schedule) overriding system value values
  (70, 'nightly', 'noop', null), (71, 'other', 'noop', null), (72, 'nightly', 'noop', '@daily');
select pg_temp.ends(70, 'failed'), pg_temp.ends(71, 'succeeded');
select is_empty($$select from pgrab.task where source = 'pgrab.alert'$$, 'no failure, and no other task');
select pg_temp.ends(70, 'succeeded'), pg_temp.ends(72, 'succeeded');
select results_eq($$select args ->> 'payload' from pgrab.task where source = 'pgrab.alert'$$,
  $$values ('nightly succeeded'), ('nightly succeeded')$$, 'each success of what it names');

-- templates that grow
delete from pgrab.task where source = 'pgrab.alert';
delete from pgrab.incident;
delete from pgrab.alert;
insert into pgrab.alert (name, template)
select 'b' || i, jsonb_build_object('kind', 'sql', 'command', 'select $1', 'args',
  jsonb_build_object('params', array[repeat('{{error}}', 110000)]))
from generate_series(1, 40) i;
insert into pgrab.alert (name, template) values ('c', '{"kind": "notify", "command": "last"}');
select pg_temp.ends(1, 'failed', repeat('{{text}}', 100), p_tell => false);
set local statement_timeout = '10 s'; -- as for a node
select cmp_ok(pg_temp.tell_all(), '>=', 3::bigint, 'what would be gigabytes holds up no others');
set local statement_timeout = 0;
select is((select string_agg(a.command, ' ') from pgrab.task a where a.source = 'pgrab.alert'), 'last',
  'which are inserted');
select is((select i.fault from pgrab.incident i where i.task_id = 1),
  'args name {{error}} 110000 times, which makes more than 1 MiB', 'and the incident says why');

-- ------------------------------------------------------------------------- one that cannot be inserted now
alter function pgrab_internal.alert_insert rename to alert_insert_now;
create function pgrab_internal.alert_insert(p_template jsonb, p_owner text, p_facts jsonb) returns void
language plpgsql as $$
begin
  if p_template ->> 'command' = 'stuck' then
    raise object_in_use;
  end if;
  perform pgrab_internal.alert_insert_now(p_template, p_owner, p_facts);
end $$;
delete from pgrab.task where source = 'pgrab.alert';
delete from pgrab.alert;
insert into pgrab.alert (name, events, template) values
  ('all', '{parked}', '{"kind": "notify", "command": "all", "args": {"payload": "{{task}}"}}');
insert into pgrab.task (id, kind, name, max_attempts, on_failure) overriding system value
values (990, 'noop', 'unlucky', 1, '{"kind": "notify", "command": "stuck"}');
select pg_temp.ends(990, 'failed');
select is(pg_temp.told(), 'all unlucky', 'keeps no other from being told');
select is((select string_agg(format('%L %s', n.alert, n.tries), ', ') from pgrab_internal.notice n), ''''' 1',
  'and is tried again');
update pgrab_internal.notice set tries = 1100, next_at = now();
select lives_ok('select pgrab_internal.notices_tell()', 'as often as it takes');
select is((select n.tries || ' ' || (n.next_at - clock_timestamp() between '50 s' and '60 s')
  from pgrab_internal.notice n), '1101 true', 'once a minute');
update pgrab_internal.notice set tries = 1440, next_at = now();
select pgrab_internal.notices_tell();
select is((select count(*) from pgrab_internal.notice), 0::bigint, 'for a day');

select * from finish();
rollback;
