-- explain and forecast: every gate says what holds the task, and what to do.
begin;
select plan(34);
set local timezone = 'UTC';

create function pg_temp.gate(p_id bigint, p_gate text) returns text language sql as $$
  select e.verdict || ': ' || e.detail from pgrab.explain(p_id) e where e.gate = p_gate
$$;
create function pg_temp.verdicts(p_id bigint) returns text language sql as $$
  select string_agg(e.gate || ' ' || e.verdict, ', ') from pgrab.explain(p_id) e where e.verdict <> 'ok'
$$;
select throws_ok('select * from pgrab.explain(4711)', 'P0002', 'task 4711 does not exist');
select throws_ok('select * from pgrab.explain(null::bigint)', 'P0002', 'task null does not exist');

insert into pgrab.task (id, kind, command) overriding system value values (1, 'shell', 'true');
select is(pg_temp.verdicts(1), 'nodes blocked', 'without a node that is all there is to say');
select matches(pg_temp.gate(1, 'nodes'), 'Start one: pgrab run');
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, labels, kinds, heartbeat_every, dead_after, started_at, incarnation, state, heartbeat_at, shards)
values ('n1', 'h', 1, '0', 'id_hash', 4, '{"zone": "eu"}', '{sql,noop}', '1 s', '10 s', now(), 11, 'up', now(), (repeat('1', 1024))::bit(1024));
select is(pg_temp.verdicts(1), 'node n1 blocked, nodes blocked', 'a node that does not run the kind');
select matches(pg_temp.gate(1, 'node n1'), 'does not run kind shell \(its allow: sql, noop\)');
update pgrab.task set kind = 'noop', command = '', require = '{"zone": "us"}' where id = 1;
select matches(pg_temp.gate(1, 'node n1'), 'blocked: Its labels .*"eu".* do not contain .*"us"');
update pgrab.task set require = '{}' where id = 1;
select is(pg_temp.verdicts(1), null, 'nothing holds it');
select matches(pg_temp.gate(1, 'node n1'), 'ok: Free: 0 of 4');
select matches(pg_temp.gate(1, 'owner'), 'is n1''s');
select matches(pg_temp.gate(1, 'next look'), 'at the latest after its `poll`');
update pgrab.node set running = 4;
select is(pg_temp.verdicts(1), 'node n1 waits', 'a busy node');
update pgrab.node set running = 0, state = 'draining';
select matches(pg_temp.gate(1, 'node n1'), 'waits: It is stopping\.');
update pgrab.node set state = 'up', heartbeat_at = now() - interval '1 minute';
select matches(pg_temp.gate(1, 'node n1'), 'blocked: It has been silent for 00:01:00');
update pgrab.node set heartbeat_at = now();
update pgrab.task set paused = true where id = 1;
select is(pg_temp.gate(1, 'paused'), 'blocked: Paused: select pgrab.resume(1) lets it go.', 'paused');
update pgrab.task set run_at = now() + interval '1 hour' where id = 1;
select unalike(pg_temp.gate(1, 'due'), '%run_now%', 'and nothing is said of what would be refused');
update pgrab.task set paused = false where id = 1;
select matches(pg_temp.gate(1, 'due'), 'waits: Planned for .*, in 0(1:00:00|0:59:59)\. select pgrab.run_now\(1\)');
update pgrab.task set attempt = 1, last_error = 'boom' where id = 1;
select matches(pg_temp.gate(1, 'due'), 'waits: Attempt 2 is due in .*: boom');
update pgrab.task set status = 'parked', due_at = null where id = 1;
select is(pg_temp.gate(1, 'parked'), 'blocked: Out of attempts (1 of 3): boom. select pgrab.retry(1) tries it again.', 'parked');
update pgrab.task set status = 'claimed', due_at = now(), node_id = (select id from pgrab.node), incarnation = 11, claimed_at = now() where id = 1;
select matches(pg_temp.gate(1, 'claim'), 'ok: Claimed by n1');
update pgrab.task set incarnation = 12 where id = 1;
select matches(pg_temp.gate(1, 'claim'), 'waits: Claimed by a node that has died');
update pgrab.task set status = 'running', incarnation = 11, started_at = now() where id = 1;
select matches(pg_temp.gate(1, 'running'), 'ok: It runs on n1 since .*, attempt 1 of 3, and is stopped after 01:00:00\.$');
select pgrab.cancel(1);
select matches(pg_temp.gate(1, 'running'), 'Asked to stop by');
update pgrab.node set state = 'down';
select matches(pg_temp.gate(1, 'node'), 'waits: Its node has died');
update pgrab.node set state = 'up';
insert into pgrab.limit values ('api', 1, 5);
insert into pgrab.task (id, kind, limit_key) overriding system value values (2, 'noop', 'api'), (3, 'noop', 'api');
select matches(pg_temp.gate(2, 'limit'), 'ok: api: 0 run of 1, at most 5 starts per second');
insert into pgrab.limit_place (key, task_id, at, started) values ('api', 3, now(), true);
select matches(pg_temp.gate(2, 'limit'), 'waits: api: 1 run of 1');
update pgrab.task set due_at = null, version = 1 where id = 2;
select matches(pg_temp.gate(2, 'limit'), 'It is in line since .*; 1 wait there');
select is((select pgrab.why(t) from pgrab.task t where id = 2), 'waits for a place under limit api', 'why says the same');
insert into pgrab.run (task_id, attempt, version, finished_at, created_at, outcome, ended, kind, owner) values (77, 1, 1, now(), now(), 'succeeded', 'done', 'noop', 'o');
select matches(pg_temp.gate(77, 'ended'), 'It has ended: done, succeeded at');
insert into pgrab.task (id, kind, schedule, timezone, max_runs) overriding system value values (4, 'noop', '0 9 * * *', 'Europe/Berlin', 5);
select is(pg_temp.gate(4, 'schedule'), 'ok: 0 9 * * * (Europe/Berlin), carried out 0 of 5 times', 'the schedule');

delete from pgrab.task;
insert into pgrab.task (id, name, kind, schedule) overriding system value values (1, 'often', 'noop', '@every 10m'), (2, 'after', 'noop', '@after 10m'), (3, 'twice', 'noop', '@every 5m');
update pgrab.task set max_runs = 2 where id = 3;
insert into pgrab.task (id, name, kind, run_at) overriding system value values (4, 'once', 'noop', now() + interval '30 min'), (5, 'later', 'noop', now() + interval '3 hours');
insert into pgrab.task (id, name, kind, command) overriding system value values (6, 'nobody', 'shell', 'true');
select results_eq('select name, count(*) from pgrab.forecast(''1 hour'') group by 1 order by 1',
  $$values ('after', 1::bigint), ('nobody', 1), ('often', 6), ('once', 1), ('twice', 2)$$, 'every fire within the hour');
select is((select string_agg(distinct node, ', ') from pgrab.forecast('1 hour')), '(no node can), n1', 'with the node that will likely have it');
select is((select array_agg(f.fire_at) = (select array_agg(g.fire_at order by g.fire_at) from pgrab.forecast('1 hour') g) from pgrab.forecast('1 hour') f), true, 'the soonest first');
select is((select count(*) from pgrab.forecast('100 years', 50)), 50::bigint, 'a limit bounds the work');

select * from finish();
rollback;
