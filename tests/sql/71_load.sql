-- What the coming fires ask for.
begin;
\ir nodes.inc
select plan(7);
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
values ('n1', 'h', 1, '1', 'id_hash', 9, '{shell,http}', '1 s', '1 hour', now(), 1, 'up', now());
update pgrab.beat set crews = '{"": [0, 1], "http": [0, 8]}';
insert into pgrab.task (id, name, kind, command, schedule, run_at) overriding system value values
  (1, 'long', 'shell', 'x', '@yearly', date_trunc('hour', now()) + interval '2 hours'),
  (2, 'short', 'shell', 'x', '@yearly', date_trunc('hour', now()) + interval '2 hours 5 minutes'),
  (3, 'after', 'shell', 'x', '@yearly', date_trunc('hour', now()) + interval '2 hours 30 minutes'),
  (4, 'new', 'shell', 'x', '@yearly', date_trunc('hour', now()) + interval '4 hours'),
  (5, 'page', 'http', 'http://x', '@yearly',
    date_trunc('hour', now()) + interval '2 hours 10 minutes');
update pgrab.task t set durations = pgrab_internal.durations_add(t.durations, u.took)
from (values (1, interval '30 minutes'), (2, '1 minute'), (3, '10 minutes'), (5, '1 second')) u(id, took)
where u.id = t.id;

create temp table told as select l.*, extract(epoch from l.at - date_trunc('hour', now())) / 3600 as hour
  from pgrab.load('8 hours') l;
select results_eq($$select hour::int, fires, unknown, work_seconds, at_once, tasks from told
  where crew = 'workers' and fires > 0 order by 1$$,
  $$values (2, 3::bigint, 0::bigint, 2461::float8, 2::bigint, 'long, short'), (4, 1, 1, 0, 1, 'new')$$,
  'fires, work and how many at once, by hour; what ends when another begins is not beside it');
select is((select peak_at - date_trunc('hour', now()) from told where crew = 'workers' and fires = 3),
  interval '2 hours 5 minutes', 'and when that is');
select results_eq($$select hour::int, fires, at_once, slots from told where crew = 'http' and fires > 0$$,
  $$values (2, 1::bigint, 1::bigint, 8::bigint)$$, 'http has slots of its own');
select is((select count(*) from told where crew = 'workers' and at_once = 0 and tasks is null), 7::bigint,
  'hours in which nothing runs are told, too');
update pgrab.task set schedule = '@every 1s', run_at = now() + interval '1 s' where id = 2;
select is((select max(at) < now() + interval '50 s' from pgrab.load('1 hour', '10 s', 50)), true,
  'what a limited number of fires does not tell of is left out');
select throws_ok($$select pgrab.load('1 day', '1 s')$$, '22023',
  'cannot tell the load of 1 day in buckets of 00:00:01', 'not too many buckets');
select throws_ok($$select pgrab.load('1 day', '1 month')$$, '22023', null, 'nor of unequal length');
select * from finish();
rollback;
