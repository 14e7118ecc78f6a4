-- explain and forecast: every gate says what holds the task, and what to do.
begin;
\ir nodes.inc
select plan(65);
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
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, labels, kinds, heartbeat_every,
  dead_after, started_at, incarnation, state, heartbeat_at, shards)
values ('n1', 'h', 1, '0', 'id_hash', 4, '{"zone": "eu"}', '{sql,noop}', '1 s', '10 s', now(), 11, 'up',
  now(), (repeat('1', 1024))::bit(1024));
select is(pg_temp.verdicts(1), 'node n1 blocked, nodes blocked', 'a node that does not run the kind');
select matches(pg_temp.gate(1, 'node n1'), 'does not run kind shell \(its allow: sql, noop\)');
update pgrab.task set kind = 'noop', command = '', require = '{"zone": "us"}' where id = 1;
select matches(pg_temp.gate(1, 'node n1'), 'blocked: Its labels .*"eu".* do not contain .*"us"');
update pgrab.task set require = '{}' where id = 1;
select is(pg_temp.verdicts(1), null, 'nothing holds it');
select matches(pg_temp.gate(1, 'node n1'), 'ok: Free: 0 of 4');
select matches(pg_temp.gate(1, 'owner'), 'belongs to n1');
insert into pgrab.task (id, kind, run_at, prefer, failover_after) overriding system value
select n, 'noop', now() - n * interval '1 s', '{"site": "hq"}', '5 min' from generate_series(60, 62) n;
select is((select string_agg(distinct l.why, '; ') from pgrab.late l where l.id >= 60),
  'no node that it prefers is up, with labels {"site": "hq"}; others take it when it is 00:05:00 late',
  'the reason is the same for all, so lists group by it');
select matches(pg_temp.gate(60, 'preferred nodes'), 'waits: .* others may take it at .* \(failover_after\)');
delete from pgrab.task where id >= 60;
select matches(pg_temp.gate(1, 'next look'), 'at the latest after its `poll`');
update pgrab.node set running = 4;
select is(pg_temp.verdicts(1), 'node n1 waits', 'a busy node');
update pgrab.node set running = 0, state = 'draining';
select matches(pg_temp.gate(1, 'node n1'), 'waits: It is stopping\.');
update pgrab.node set state = 'up', heartbeat_at = now() - interval '1 minute';
select matches(pg_temp.gate(1, 'node n1'), 'blocked: It has been silent for 00:01:\d\d');
update pgrab.node set heartbeat_at = now();
update pgrab.task set paused = true where id = 1;
select is(pg_temp.gate(1, 'paused'), 'blocked: Paused: select pgrab.resume(1) resumes it.', 'paused');
update pgrab.task set run_at = now() + interval '1 hour' where id = 1;
select unalike(pg_temp.gate(1, 'due'), '%run_now%', 'and nothing is said of what would be refused');
update pgrab.task set paused = false where id = 1;
select matches(pg_temp.gate(1, 'due'),
  'waits: Planned for .*, in 0(1:00:00|0:59:\d\d)\. select pgrab.run_now\(1\)');
update pgrab.task set attempt = 1, last_error = 'boom' where id = 1;
select matches(pg_temp.gate(1, 'due'), 'waits: Attempt 2 is due in .*: boom');
update pgrab.task set status = 'parked', due_at = null where id = 1;
select is(pg_temp.gate(1, 'parked'),
  'blocked: Out of attempts (1 of 3): boom. select pgrab.retry(1) tries it again.', 'parked');
update pgrab.task set status = 'claimed', due_at = now(), node_id = (select id from pgrab.node),
  incarnation = 11, claimed_at = now()
where id = 1;
select matches(pg_temp.gate(1, 'claim'), 'ok: Claimed by n1');
update pgrab.node set heartbeat_at = now() - interval '5 s';
select is(pg_temp.gate(1, 'claim'), 'waits: Claimed by n1, which is silent; others take it over when it has '
  'been for 00:00:10 (its dead_after).', 'claimed by a node that is silent');
update pgrab.node set heartbeat_at = now();
update pgrab.task set incarnation = 12 where id = 1;
select matches(pg_temp.gate(1, 'claim'), 'waits: Claimed by a node that has died');
update pgrab.task set status = 'running', incarnation = 11, started_at = now() where id = 1;
select matches(pg_temp.gate(1, 'running'),
  'ok: Running on n1 since .*, attempt 1 of 3; stopped after 01:00:00\.$');
select pgrab.cancel(1);
select matches(pg_temp.gate(1, 'running'), 'Asked to stop by');
update pgrab.node set state = 'down';
select matches(pg_temp.gate(1, 'node'), 'waits: Its node has died');
update pgrab.node set state = 'up';
insert into pgrab.limit values ('api', 1, 5);
insert into pgrab.task (id, kind, limit_key) overriding system value values
  (2, 'noop', 'api'), (3, 'noop', 'api');
select matches(pg_temp.gate(2, 'limit'), 'ok: api: 0 run of 1, at most 5 starts per second');
insert into pgrab.limit_place (key, task_id, at, started) values ('api', 3, now(), true);
select matches(pg_temp.gate(2, 'limit'), 'waits: api: 1 run of 1');
update pgrab.task set due_at = null, line = 'api', version = 1 where id = 2;
select matches(pg_temp.gate(2, 'limit'), 'It has been in line since .*; 1 wait there');
select is(pgrab.why(2), 'waits for a place under limit api', 'why says the same');
insert into pgrab.run (task_id, attempt, version, finished_at, created_at, outcome, ended, kind, owner) values
  (77, 1, 1, now(), now(), 'succeeded', 'done', 'noop', 'o');
select matches(pg_temp.gate(77, 'ended'), 'It has ended: done, succeeded at');
insert into pgrab.task (id, kind, schedule, timezone, max_runs) overriding system value values
  (4, 'noop', '0 9 * * *', 'Europe/Berlin', 5);
select is(pg_temp.gate(4, 'schedule'), 'ok: 0 9 * * * (Europe/Berlin), carried out 0 of 5 times',
  'the schedule');

delete from pgrab.task;
insert into pgrab.task (id, name, kind, schedule) overriding system value values
  (1, 'often', 'noop', '@every 10m'), (2, 'after', 'noop', '@after 10m'), (3, 'twice', 'noop', '@every 5m');
update pgrab.task set max_runs = 2 where id = 3;
insert into pgrab.task (id, name, kind, run_at) overriding system value values
  (4, 'once', 'noop', now() + interval '30 min'), (5, 'later', 'noop', now() + interval '3 hours');
insert into pgrab.task (id, name, kind, command) overriding system value values
  (6, 'nobody', 'shell', 'true');
select results_eq('select name, count(*) from pgrab.forecast(''1 hour'') group by 1 order by 1',
  $$values ('after', 1::bigint), ('nobody', 1), ('often', 6), ('once', 1), ('twice', 2)$$,
  'every fire within the hour');
select is((select string_agg(distinct node, ', ') from pgrab.forecast('1 hour')), '(no node can), n1',
  'with the node that will likely have it');
select is(
  (select array_agg(f.fire_at) from pgrab.forecast('1 hour') f)
    = (select array_agg(g.fire_at order by g.fire_at) from pgrab.forecast('1 hour') g),
  true, 'the soonest first');
select is((select count(*) from pgrab.forecast('100 years', 50)), 50::bigint, 'a limit bounds the work');
insert into pgrab.task (id, name, kind, wait_for, run_at) overriding system value
select i, 'waits', 'noop', 'go', now() + i * interval '1 min' from generate_series(1007, 1009) i;
select is((select array_agg((select count(*) from pgrab.forecast('1 day', n))) from generate_series(1, 3) n),
  '{1,2,3}', 'with those that wait for a signal');
select is((select array_agg(f.task_id) from pgrab.forecast('1 day') f where f.name = 'waits'),
  '{1007,1008,1009}', 'in their order');

-- ------------------------------------------------------ the causes that are found last, each with its remedy
delete from pgrab.task;
delete from pgrab.limit;
create function pg_temp.why(p_id bigint) returns text language sql as $$ select pgrab.why(p_id) $$;
insert into pgrab.task (id, kind, run_at) overriding system value values
  (20, 'noop', now() - interval '1 minute');
-- draining
update pgrab.node set state = 'draining';
insert into pgrab.drained (node_id, asked_by) select id, 'eve' from pgrab.node;
select is(pg_temp.gate(20, 'node n1'),
  'blocked: Draining, by order of eve; select pgrab.undrain(''n1'') ends that.', 'a drained node');
select matches(pg_temp.gate(20, 'nodes'),
  'blocked: Every node that could run it is draining or stopping. Undrain one');
select is(pg_temp.why(20), 'all nodes are draining', 'late says so');
select is(pg_temp.gate(20, 'owner'), null, 'nobody takes it');
delete from pgrab.drained;
update pgrab.node set state = 'up';
-- a limit of 0
insert into pgrab.limit (key, max_running) values ('api', 0);
insert into pgrab.task (id, kind, limit_key) overriding system value values (21, 'noop', 'api');
select is(pg_temp.gate(21, 'limit'),
  'blocked: api lets nothing run: update pgrab.limit set max_running = 1 where key = ''api''.',
  'a limit of 0');
update pgrab.task set due_at = null, line = 'api', version = 1 where id = 21;
select is(pg_temp.why(21), 'limit api lets nothing run (max_running 0)', 'late says so');
-- a paused parent, a parked one
insert into pgrab.task (id, name, kind, paused) overriding system value values (30, 'root', 'noop', true);
insert into pgrab.task (id, name, kind, parent_id) overriding system value values (31, 'leaf', 'noop', 30);
select is(pg_temp.gate(31, 'parent root'),
  'blocked: Starts after its success; it is paused: select pgrab.resume(30) resumes it.', 'a paused parent');
select is(pg_temp.why(31), 'waiting for root (paused)', 'why says so');
update pgrab.task set paused = false where id = 30;
select is(pg_temp.gate(31, 'parent root'), 'waits: Starts after its success; it is scheduled.',
  'a parent that will run');
update pgrab.task set status = 'parked', due_at = null, last_error = 'boom', attempt = 3, version = 1
where id = 30;
select is(pg_temp.gate(31, 'parent root'), 'blocked: It failed: boom. select pgrab.retry(30) tries it again.',
  'a parked parent');
select is(pg_temp.why(31), 'waiting for root (parked)', 'why says so');
-- durability
insert into pgrab.task (id, kind, delivery) overriding system value values (22, 'noop', 'at_most_once');
select is(pg_temp.gate(22, 'durability'), null, 'a server that keeps commits');
set local synchronous_commit = off;
select is(pg_temp.gate(22, 'durability'), null, 'a start sets synchronous_commit itself');
set local synchronous_commit = on;
-- kinds and labels
insert into pgrab.task (id, kind, command) overriding system value values (23, 'shell', 'true');
select is(pg_temp.gate(23, 'nodes'),
  'blocked: No live node runs kind shell. Start one with it: pgrab run --allow ...,shell.',
  'no node runs the kind');
insert into pgrab.task (id, kind, require) overriding system value values (24, 'noop', '{"zone": "us"}');
select matches(pg_temp.gate(24, 'nodes'),
  'blocked: No live node that runs kind noop has labels .*"us".*\. Start one with them');
-- all paused
update pgrab.cluster set paused = true, paused_at = now(), paused_by = 'eve';
select matches(pg_temp.gate(20, 'all paused'),
  'blocked: All tasks have been paused since .* by eve: select pgrab.resume_all\(\) resumes them');
select is(pg_temp.why(20), 'all tasks are paused', 'why says so');
update pgrab.cluster set system_id = 1, database = 1;
select matches(pg_temp.gate(20, 'all paused'), 'Only if that is gone for good, select pgrab.adopt\(\)',
  'a copy is not resumed');
select is(pgrab.adopt(), true, 'adopt');
select is(pg_temp.gate(20, 'all paused'), null, 'lets them go');
-- the owner among those that are able
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, labels, kinds, heartbeat_every,
  dead_after, started_at, incarnation, state, heartbeat_at, shards)
select n, 'h', 1, '0', 'id_hash', 4, l::jsonb, '{noop,sql}', '1 s', '10 s', now(), 12, 'up', now(),
  repeat('0', 1024)::bit(1024)
from (values ('n2', '{"zone": "us"}'), ('n3', '{"zone": "us"}')) x(n, l);
select is(pg_temp.gate(24, 'owner'),
  'ok: One of n2, n3 takes it; another of them when it is late by steal_after.',
  'one of those that are able');
update pgrab.node set labels = '{}' where name = 'n3';
select is(pg_temp.gate(24, 'owner'),
  format('ok: Shard %s belongs to n2; others take the task when it is late by steal_after.',
    pgrab.shard(24)),
  'the only one');
select is(pg_temp.gate(20, 'owner'),
  format('ok: Shard %s belongs to n1; others take the task when it is late by steal_after.',
    pgrab.shard(20)),
  'where all are able, the owner of the shard');
select results_eq(
  'select f.task_id, f.node from pgrab.forecast(''1 minute'') f where f.task_id in (20, 23, 24) order by 1',
  $$values (20::bigint, 'n1'), (23, '(no node can)'), (24, 'n2')$$, 'forecast says the same');
-- the node that it prefers, or another when its time and failover_after are over
insert into pgrab.task (id, kind, run_at, require, prefer, failover_after) overriding system value values
  (71, 'noop', now() + interval '10 min', '{}', '{"zone": "us"}', '5 min'),
  (72, 'noop', now() + interval '10 min', '{}', '{"zone": "mars"}', '5 min'),
  (73, 'noop', now() - interval '2 min', '{}', '{"zone": "mars"}', null),
  (74, 'noop', now() - interval '2 min', '{}', '{"zone": "mars"}', '5 min'),
  (75, 'noop', now() + interval '10 min', '{"zone": "us"}', '{"zone": "mars"}', '5 min');
select results_eq(
  $$select f.task_id, f.node, round(extract(epoch from f.fire_at - now()) / 60)
    from pgrab.forecast('1 hour') f where f.task_id between 71 and 75 order by 1$$,
  $$values (71::bigint, 'n2', 10::numeric), (72, (select o.node from pgrab.ownership o
    where o.shard = pgrab.shard(72)), 15), (73, (select o.node from pgrab.ownership o
    where o.shard = pgrab.shard(73)), 0), (74, (select o.node from pgrab.ownership o
    where o.shard = pgrab.shard(74)), 3), (75, 'n2', 15)$$,
  'forecast: who prefers comes to such a node, or later to another');

select is_empty($$select t.id, w.why, g.why from pgrab.task t
    cross join lateral pgrab.why(t.id) w(why) left join lateral (
      select x.why from pgrab_internal.gates(row(t.*)::pgrab_internal.task, true)
        with ordinality x(gate, verdict, detail, why, n)
      where x.why is not null order by x.n limit 1) g on true
    where t.status = 'scheduled' and t.due_at <= clock_timestamp() and w.why is distinct from g.why$$,
  'lists say what the first gate says that is shut');

select * from finish();
rollback;
