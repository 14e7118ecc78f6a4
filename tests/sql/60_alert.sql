-- Failures are seen (pgrab.failing, pgrab.overdue), and told of (pgrab.alert, on_failure).
begin;
\ir nodes.inc
select plan(66);
select pgrab.upkeep();
select setval(pg_get_serial_sequence('pgrab.task', 'id'), 1000);
set local timezone = 'UTC';
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at, bell) values
  ('n1', 'h', 1, '0', 'id_hash', 4, '{noop}', '1 s', '10 s', now(), 11, 'up', now(), false);

-- Lets a task run and end so.
create function pg_temp.ends(p_id bigint, p_outcome text, p_error text default 'boom') returns void
language plpgsql as $$
begin
  update pgrab.task t set status = 'running', due_at = coalesce(t.due_at, now()), node_id = 1,
    incarnation = 11, version = 7, attempt = t.attempt + 1, started_at = clock_timestamp()
  where t.id = p_id;
  perform pgrab_internal.finish((array[p_id], array[7], array[11], array[2000000], array[1000000],
    array[p_outcome], null, null, null, array[case when p_outcome <> 'succeeded' then p_error end],
    null)::pgrab_internal.batch, 1, 'n1');
end $$;
create function pg_temp.told() returns text language sql as $$
  select string_agg(a.command || ' ' || (a.args ->> 'payload'), '; ' order by a.id) from pgrab.task a
  where a.source = 'pgrab.alert'
$$;
create function pg_temp.failing() returns text language sql as $$
  select string_agg((f.name, f.status, f.failures, f.outcome, f.error)::text, ' ' order by f.id)
  from pgrab.failing f
$$;

-- --------------------------------------------------------------------------------------------------- failing
insert into pgrab.task (id, key, kind, schedule, max_attempts) overriding system value values
  (1, 'nightly', 'noop', '@every 1h', 2);
insert into pgrab.task (id, name, kind, max_attempts) overriding system value values
  (2, 'once', 'noop', 1), (3, 'fine', 'noop', 1);
select is_empty('select * from pgrab.failing', 'nothing fails');
select pg_temp.ends(1, 'failed');
select is_empty('select * from pgrab.failing', 'a try that will be repeated is no failure yet');
select pg_temp.ends(1, 'failed', 'second');
select is(pg_temp.failing(), '(nightly,scheduled,1,failed,second)',
  'a schedule whose last fire failed is failing');
select is((select f.since = date_trunc('second', t.last_finished_at)
    from pgrab.failing f join pgrab.task t on t.id = f.id), true, 'since when');
select pg_temp.ends(1, 'failed'), pg_temp.ends(1, 'timed_out', 'too slow');
select is(pg_temp.failing(), '(nightly,scheduled,2,timed_out,"too slow")', 'how often in a row');
select pg_temp.ends(2, 'failed'), pg_temp.ends(3, 'succeeded');
select is(pg_temp.failing(), '(nightly,scheduled,2,timed_out,"too slow") (once,parked,1,failed,boom)',
  'what is parked fails');
select is((select count(*) from pgrab.incident), 1::bigint,
  'and costs no incident when nobody is told of it');
select is((select (o.failing, o.parked, o.overdue)::text from pgrab.overview o), '(2,1,0)',
  'overview counts them');
select pg_temp.ends(1, 'succeeded');
select is(pg_temp.failing(), '(once,parked,1,failed,boom)', 'a success ends it');
select is_empty('select * from pgrab.incident', 'nothing is kept of it');
delete from pgrab.task where id = 2;
select pg_temp.ends(1, 'cancelled');
select is_empty('select * from pgrab.failing', 'cancelled is no failure');
select is(pg_temp.told(), null, 'nobody was told');

-- ---------------------------------------------------------------------------------------------------- alerts
insert into pgrab.alert (name, template) values ('all', '{"kind": "notify", "command": "all"}');
select is((select a.set_by = current_user and a.events = '{failed,parked,recovered}' from pgrab.alert a),
  true, 'an alert with its defaults');
update pgrab.task set max_attempts = 1 where id = 1;
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
  array['succeeded'], null, null, null, null, null)::pgrab_internal.batch, 1, 'n1');
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
select is((select string_agg((a.args -> 'body' ->> 'event') || ' ' || (a.args ->> 'method'),
      ', ' order by a.id) from pgrab.task a where a.source = 'pgrab.alert'), 'failed POST, recovered POST',
  'unless it asks for it; http posts the facts');
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
select throws_ok($$update pgrab.task set on_failure = '{"kind": "noop", "events": ["late"]}' where id = 1$$,
  '22023', 'the template of an alert cannot be ''["late"]''', 'no such event');
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

-- --------------------------------------------------------------------------------------------------- overdue
insert into pgrab.task (id, key, kind, schedule, expect_within, created_at) overriding system value values
  (10, 'backup', 'noop', '@every 1h', '1 day', now()), (11, 'young', 'noop', '@every 1h', '1 day', now());
select is_empty('select * from pgrab.overdue', 'nothing is overdue');
update pgrab.task set created_at = now() - interval '25 hours' where id = 10;
select is((select (o.name, o.last_success, date_trunc('hour', o.overdue_by), o.why like 'due in%')::text
    from pgrab.overdue o), '(backup,,01:00:00,t)', 'a task that has never succeeded');
select pg_temp.ends(10, 'succeeded');
select is_empty('select * from pgrab.overdue', 'a success ends it');
update pgrab.task set last_finished_at = now() - interval '26 hours' where id = 10;
select is((select date_trunc('hour', o.overdue_by) from pgrab.overdue o), '02:00:00', 'an old success');
update pgrab.run set finished_at = now() - interval '26 hours' where task_id = 10;
update pgrab.task set max_attempts = 1 where id = 10;
select pg_temp.ends(10, 'failed');
select is((select o.last_success from pgrab.overdue o), date_trunc('second', now() - interval '26 hours'),
  'a failure since is none');
select pg_temp.ends(10, 'failed');
select is((select o.last_success from pgrab.overdue o), date_trunc('second', now() - interval '26 hours'),
  'however often');
update pgrab.task set status = 'running', node_id = 1, incarnation = 11,
  started_at = now() - interval '3 hours'
where id = 10;
select matches((select o.why from pgrab.overdue o), '^runs for 03:00:\d\d$', 'one that runs too long');
update pgrab.task set status = 'scheduled', node_id = null, incarnation = null where id = 10;

-- late, told once
select is((select count(*) from pgrab.task where key = 'pgrab.alert_late'), 0::bigint,
  'nobody looks for what is late');
insert into pgrab.alert (name, events, template) values
  ('late', '{late,recovered}', '{"kind": "notify", "command": "late"}');
select is((select (t.schedule, t.command)::text from pgrab.task t where key = 'pgrab.alert_late'),
  '("@every 1m","select pgrab.alert_late()")', 'until somebody wants to know');
delete from pgrab.incident;
select is(pgrab.alert_late(), 1::bigint, 'one is late');
select is(pgrab.alert_late(), 0::bigint, 'once');
select is((select string_agg(a.args ->> 'payload', '; ') from pgrab.task a
    where a.source = 'pgrab.alert' and kind = 'notify'),
  'backup is late: no success within 1 day', 'and is told of');
select is_empty('select * from pgrab.incident where event = ''late'' and failures > 0', 'late is no failure');
select pg_temp.ends(10, 'succeeded');
select matches((select string_agg(a.args ->> 'payload', '; ' order by id) from pgrab.task a
    where a.source = 'pgrab.alert' and kind = 'notify'),
  '; backup has recovered: it was late since', 'so is its recovery');

-- ----------------------------------------------------------------------------------------------------- nodes
delete from pgrab.alert;
delete from pgrab.task;
create function pg_temp.down() returns text language sql as $$
  select string_agg((i.node_id, i.since)::text, ' ' order by i.node_id) from pgrab.node_incident i
$$;
select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'its process has died');
select is(pg_temp.told(), null, 'nobody wants to hear of nodes');
select is(pg_temp.down(), '(1,"2026-01-02 03:04:05+00")', 'but that it is down is on record');
select pgrab_internal.node_back(1);
select is(pg_temp.down(), null, 'until it is back');
insert into pgrab.alert (name, events, node_like, template) values
  ('a', '{node_down,node_up}', 'n%', '{"kind": "notify", "command": "a"}'),
  ('b', '{node_down}', 'x%', '{"kind": "notify", "command": "b"}'),
  ('c', '{failed,parked,recovered}', null, '{"kind": "notify", "command": "c"}');
select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'no heartbeat since then'),
  pgrab_internal.node_died(1, '2026-01-02 03:04:06', 'again');
select is(pg_temp.told(), 'a node n1 on h is down: no heartbeat since then',
  'told of once, by who wants to hear of this node');
select pgrab_internal.node_incidents_end();
select is(pg_temp.told(),
  'a node n1 on h is down: no heartbeat since then; '
    'a node n1 on h is back: it was down since 2026-01-02 03:04:05+00',
  'and when it is back, once');
select pgrab_internal.node_back(1);
select is((select count(*) from pgrab.task), 2::bigint, 'not again');
update pgrab.alert set template = '{"kind": "http", "command": "http://localhost/", '
  '"args": {"body": {"key": "{{id}}", "text": "{{task}} {{event}} {{error}}"}}}'
where name = 'a';
select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'it died');
select is((select a.args -> 'body' from pgrab.task a where a.kind = 'http'),
  '{"key": "node-1", "text": "node n1 node_down it died"}', 'one template does for tasks and nodes');
select pgrab_internal.node_back(1);
insert into pgrab.limit (key, max_running) values ('hooks', 1);
update pgrab.alert set template = '{"kind": "noop", "limit_key": "hooks"}' where name = 'a';
delete from pgrab.limit;
set local client_min_messages = error;
select lives_ok($$select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'it died')$$,
  'a template that cannot work keeps nobody from marking a node down');
select matches((select i.fault from pgrab.node_incident i), 'limit', 'and says why');
update pgrab.beat set state = 'down' where node_id = 1;
select pgrab_internal.node_incidents_end();
select is((select count(*) from pgrab.node_incident), 1::bigint, 'what is down stays so');
delete from pgrab.registration where id = 1;
select pgrab_internal.node_incidents_end();
select is((select count(*) from pgrab.node_incident), 0::bigint, 'until nobody knows the node any more');

select * from finish();
rollback;
