-- Why a run began late: each thing that the history knows, and nothing that it does not.
begin;
\ir nodes.inc
select plan(16);
insert into pgrab.node (id, name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every,
  dead_after, started_at, incarnation, state, heartbeat_at)
values (1, 'n1', 'h', 1, '1', 'id_hash', 2, '{noop}', '1 s', '1 hour', now(), 11, 'up', now());
insert into pgrab.task (id, kind, name, schedule) overriding system value
values (1, 'noop', 'held', '@yearly');

-- Due an hour ago; claimed and begun so many seconds later.
create function pg_temp.late(p_id bigint, p_claimed float8, p_begun float8, p_more jsonb default '{}')
returns text
language sql as $$
  insert into pgrab.run (task_id, version, node_id, incarnation, node, fire_at, created_at,
    claimed_at, started_at, finished_at, attempt, outcome, kind, owner, chain_id, signals, definition)
  select p_id, 1, 1, (p_more ->> 'incarnation')::bigint, 'n1', f.at,
    f.at + coalesce((p_more ->> 'created')::float8, -60) * interval '1 s', f.at + p_claimed * interval '1 s',
    f.at + p_begun * interval '1 s', f.at + interval '30 min', coalesce((p_more ->> 'attempt')::int, 1),
    'succeeded', 'noop', current_user, (p_more ->> 'chain')::bigint, p_more -> 'signals',
    p_more -> 'definition'
  from (select now() - interval '1 h' as at) f;
  select string_agg(regexp_replace(w.why, 'at \d\d:\d\d:\d\d$', 'at TIME'), ' and ') from pgrab.run r
    cross join lateral pgrab_tool.why_late(r.task_id, r.version, r.finished_at) w where r.task_id = p_id
$$;
select is(pg_temp.late(10, 1, 2), null, 'what began in time was not late');
select is(pg_temp.late(11, 100, 100, '{"attempt": 2}'), null, 'nor was a second attempt');
select is(pg_temp.late(12, 100, 101), 'no node took it for 00:01:40', 'nothing more is known');
select is(pg_temp.late(13, 100, 101, '{"definition": {"limit_key": "api"}}'),
  'no node took it for 00:01:40 (limit api)', 'under a limit');
select is(pg_temp.late(15, 100, 101, '{"created": 98}'), 'inserted at TIME', 'inserted late');
select is(pg_temp.late(16, 100, 101, format('{"signals": [{"name": "approved", "at": "%s"}]}',
  now() - interval '1 h' + interval '99 s')::jsonb), 'waited for signal approved at TIME', 'an approval');
insert into pgrab.run (task_id, version, fire_at, created_at, started_at, finished_at, attempt, outcome, kind,
  owner, chain_id, name)
select 20, 1, now() - interval '1 h', now() - interval '2 h', now() - interval '1 h',
  now() - interval '1 h' + interval '99 s', 1, 'succeeded', 'noop', current_user, 5, 'extract';
select is(pg_temp.late(17, 100, 101, '{"chain": 5, "definition": {"parent_id": 20}}'),
  'waited for extract at TIME', 'a parent');
insert into pgrab.run (task_id, version, fire_at, created_at, started_at, finished_at, attempt, outcome, kind,
  owner)
select 51, 1, now() - interval '1 h', now() - interval '2 h', now() - interval '1 h',
  now() - interval '1 h' + interval '2 s', 1, 'waited', 'noop', current_user;
select is(pg_temp.late(51, 100, 101), 'went on after its handler had waited at TIME',
  'a wait of its handler');
insert into pgrab.event (at, what, role, task_id, task)
select now() - interval '1 h' + interval '90 s', 'resume', 'anna', 18, 'x';
select is(pg_temp.late(18, 100, 101), 'paused; anna resumed it at TIME', 'a pause');
select is(pg_temp.late(19, 1000, 1001), 'no node took it for 00:16:40; n1 was busy: 2 of 2',
  'that of another task, or of a tenth of the time, is no reason');
insert into pgrab.blackout (name, during) values
  ('move', tstzrange(now() - interval '2 h', now() - interval '1 h' + interval '90 s'));
select is(pg_temp.late(1, 100, 101), 'blackout move at TIME', 'a blackout');
insert into pgrab.run (task_id, version, node, fire_at, created_at, started_at, finished_at, attempt, outcome,
  kind, owner)
select g, 1, 'n1', now() - interval '2 h', now() - interval '2 h', now() - interval '2 h',
  now() - interval '50 min', 1, 'succeeded', 'noop', current_user from generate_series(31, 32) g;
select is(pg_temp.late(14, -1, 100), 'n1 had it for 00:01:40; n1 was busy: 2 of 2', 'its node had no worker');
insert into pgrab.event (at, what, role) select now() - interval '1 h' + interval '95 s', 'resume_all', 'ben';
select is(pg_temp.late(21, 100, 101), 'all were paused; ben resumed them at TIME', 'a pause of all');

insert into pgrab.run (task_id, version, fire_at, created_at, finished_at, attempt, outcome, kind, owner)
values (22, 1, now() - interval '1 h', now() - interval '2 h', now() - interval '58 min', 0, 'missed', 'noop',
  current_user);
select is((select w.why from pgrab.run r cross join lateral
    pgrab_tool.why_late(r.task_id, r.version, r.finished_at) w where r.task_id = 22), 'n1 was busy: 2 of 2',
  'of a fire that was missed: who was busy');

insert into pgrab.limit (key, max_running) values ('tape', 1);
insert into pgrab.run (task_id, version, node, fire_at, created_at, started_at, finished_at, attempt, outcome,
  kind, owner, name, definition)
select 41, 1, 'n3', now() - interval '2 h', now() - interval '2 h', now() - interval '2 h',
  now() - interval '59 min', 1, 'succeeded', 'noop', current_user, 'backup', '{"limit_key": "tape"}';
select is(pg_temp.late(23, 60, 61, '{"definition": {"limit_key": "tape"}}'),
  'no node took it for 00:01:00; limit tape: 1 of 1 ran: backup #41', 'under a limit: who had the place');
select is((select w.why_at::timestamp at time zone current_setting('timezone') from pgrab.run r
    cross join lateral pgrab_tool.why_late(r.task_id, r.version, r.finished_at) w where r.task_id = 23),
  date_trunc('second', now() - interval '1 h' + interval '30.5 s'), 'and when: in the middle of the wait');

select * from finish();
rollback;
