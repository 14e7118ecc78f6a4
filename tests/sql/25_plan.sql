-- Schedules of tasks: the first fire, re-arming after a run, misfires, cancel and skip_next.
begin;
\ir nodes.inc
select plan(84);
set local timezone = 'UTC';

-- the first fire
insert into pgrab.task (id, kind, schedule) overriding system value values
  (1, 'noop', '@every 90s'), (2, 'noop', '@after 1h'), (3, 'noop', '0 0 1 1 *');
select is((select array_agg(run_at - now() order by id) from pgrab.task where id in (1, 2)),
  '{00:01:30,01:00:00}', '@every and @after fire first one interval from now');
select is((select run_at from pgrab.task where id = 3), pgrab.next_fire('0 0 1 1 *'),
  'cron at its next time');
select is((select bool_and(run_at = fire_at and fire_at = due_at and status = 'scheduled' and fires = 0)
    from pgrab.task), true, 'planned, fire and due are one time');
insert into pgrab.task (id, kind, schedule, run_at) overriding system value values
  (4, 'noop', '@daily', '2100-01-01 12:34Z');
select is((select fire_at from pgrab.task where id = 4), '2100-01-01 12:34Z',
  'a run_at that is given is the first fire');
insert into pgrab.task (id, kind, schedule, timezone, starts_at) overriding system value values
  (5, 'noop', '30 2 * * *', 'Europe/Berlin', '2100-03-28 00:00Z'),
  (6, 'noop', '@every 1h', 'UTC', '2100-01-01 00:00:30Z'),
  (7, 'noop', '0 0 * * *', 'UTC', '2100-01-01Z');
select is((select array_agg(fire_at order by id) from pgrab.task where id between 5 and 7),
  '{2100-03-28 01:00+00,2100-01-01 00:00:30+00,2100-01-01+00}',
  'not before starts_at, and at it when it matches; a gap of the clock is jumped');
insert into pgrab.task (id, kind, schedule, jitter) overriding system value
select i, 'noop', '@daily', '1 hour' from generate_series(100, 199) i;
select is(
  (select count(distinct due_at - fire_at) > 90 and min(due_at - fire_at) >= '0'
      and max(due_at - fire_at) < '1 hour'
    from pgrab.task where id >= 100),
  true, 'jitter spreads the tasks within itself');
delete from pgrab.task where id >= 100;

-- edits
update pgrab.task set schedule = '@every 10m' where id = 1;
select is((select fire_at - now() from pgrab.task where id = 1), '10 minutes',
  'a new schedule is planned from now on');
update pgrab.task set run_at = now() + interval '5 s' where id = 1;
select is((select fire_at - now() from pgrab.task where id = 1), '5 s', 'a new run_at moves the next fire');
update pgrab.task set schedule = null where id = 1;
select is((select (fire_at - now(), schedule)::text from pgrab.task where id = 1), '(00:00:05,)',
  'without its schedule it is a one-shot task');
insert into pgrab.task (id, key, kind, schedule, command) overriding system value values
  (50, 'k', 'noop', '*/5 * * * *', 'a');
create temp table seen as select version, fire_at, xmin::text as x from pgrab.task where key = 'k';
insert into pgrab.task (id, key, kind, schedule, command) overriding system value values
  (50, 'k', 'noop', '*/5 * * * *', 'a')
on conflict (key) do update set schedule = excluded.schedule, command = excluded.command,
  run_at = excluded.run_at;
select is((select (t.version, t.fire_at) = (s.version, s.fire_at) from pgrab.task t, seen s
    where t.key = 'k'), true, 'an unchanged upsert disturbs nothing');
update pgrab.task set fire_at = now() - interval '3 s', run_at = now() - interval '3 s',
  due_at = now() - interval '3 s', version = 10
where key = 'k';
insert into pgrab.task (id, key, kind, schedule, command) overriding system value values
  (50, 'k', 'noop', '*/5 * * * *', 'a')
on conflict (key) do update set schedule = excluded.schedule, command = excluded.command,
  run_at = excluded.run_at;
select is((select (version, due_at < now())::text from pgrab.task where key = 'k'), '(10,t)',
  'nor does one at the moment the task is due: its run is not lost');
insert into pgrab.task (id, key, kind, schedule, command) overriding system value values
  (50, 'k', 'noop', '*/5 * * * *', 'b')
on conflict (key) do update set schedule = excluded.schedule, command = excluded.command,
  run_at = excluded.run_at;
select is((select (version, due_at < now(), command)::text from pgrab.task where key = 'k'), '(11,t,b)',
  'one that changes the command keeps the plan');
delete from pgrab.task;

-- an edit is honoured whatever else the statement writes, and however often the row is edited in it
insert into pgrab.task (key, kind) values ('e', 'noop');
update pgrab.task set paused = true, updated_at = now() + interval '1 s' where key = 'e';
select is((select due_at from pgrab.task where key = 'e'), null,
  'a pause that also writes updated_at is one');
update pgrab.task set paused = false, updated_at = now() + interval '2 s' where key = 'e';
select isnt((select due_at from pgrab.task where key = 'e'), null, 'and so is its end');
select throws_ok($$update pgrab.task set kind = 'nonsense', updated_at = now() + interval '3 s'
    where key = 'e'$$, '22023', null, 'and nothing is written unchecked');
with u as (update pgrab.task set name = 'z' where key = 'e' returning id)
select (pgrab.pause(id)).id > 0 from u;
select is((select due_at from pgrab.task where key = 'e'), null,
  'two edits in one statement are both honoured');
delete from pgrab.task;

-- what becomes of a run
create function pg_temp.put(p_id bigint, p_set text) returns void language plpgsql as $$
begin
  insert into pgrab.task (id, kind, schedule, run_at) overriding system value values
    (p_id, 'noop', '0 * * * *', '2026-01-01 10:00Z');
  execute format('update pgrab.task set %s where id = %s', p_set, p_id);
  update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1,
    claimed_at = now(), started_at = now(), updated_at = now()
  where id = p_id;
end $$;
create function pg_temp.finish(p_id bigint, p_outcome text, p_wait_us bigint default null) returns text
language sql as $$
  with f as (
    select * from pgrab_internal.finish((array[p_id], array[7], array[11], array[2000000], array[1000000],
      array[p_outcome], array[3], array['out'], array[false],
      array[case when p_outcome <> 'succeeded' then 'why' end],
      array[p_wait_us], null)::pgrab_internal.outcomes, 1, 'n1'))
  select string_agg(f::text, ' ') from f
$$;
create function pg_temp.task(p_id bigint) returns text language sql as $$
  select concat_ws(' ', status, to_char(fire_at, 'HH24:MI'), to_char(due_at, 'HH24:MI'), attempt, fires, runs,
    failures, last_outcome)
  from pgrab.task where id = p_id
$$;
select pg_temp.put(1, 'name = ''hourly''');
select is(pg_temp.finish(1, 'succeeded'), '(1,7)', 'a run that ends is returned');
select is(pg_temp.task(1), 'scheduled 11:00 11:00 0 1 1 0 succeeded',
  'a success arms the next fire, counted from the planned time');
select is(
  (select (attempt, exit_code, outcome, ended, fire_at, node, finished_at - started_at,
      claimed_at = now())::text
    from pgrab.run where task_id = 1),
  '(1,3,succeeded,,"2026-01-01 10:00:00+00",n1,00:00:01,t)', 'the run is recorded as it was');
select is((select (version, node_id, incarnation, run_at = fire_at)::text from pgrab.task where id = 1),
  '(8,,,t)', 'nobody holds it, run_at is the next fire');
select is(pg_temp.finish(1, 'succeeded'), null, 'the same finish again is stale');
select is((select count(*) from pgrab.run where task_id = 1), 1::bigint, 'and writes nothing');
select pg_temp.put(2, 'max_attempts = 2');
select is(pg_temp.finish(2, 'failed'), '(2,7)', 'a failure');
select is((select (status, fire_at, attempt, fires, due_at > now())::text from pgrab.task where id = 2),
  '(scheduled,"2026-01-01 10:00:00+00",1,0,t)', 'is tried again for the same fire');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 2
where id = 2;
select is(pg_temp.finish(2, 'timed_out'), '(2,7)', 'the last attempt fails');
select is(pg_temp.task(2), 'scheduled 11:00 11:00 0 1 2 2 timed_out', 'that ends the fire, not the schedule');
select pg_temp.put(21, 'max_attempts = 2');
select pg_temp.finish(21, 'failed', -1 - 3600000000);
select ok((select due_at between now() + interval '59 minutes' and now() + interval '61 minutes'
    from pgrab.task where id = 21), 'what was called may ask to be left alone for an hour');
select pg_temp.put(22, 'max_attempts = 2');
select pg_temp.finish(22, 'failed', -1 - 9000000000000);
select ok((select due_at between now() + interval '23 hours' and now() + interval '25 hours'
    from pgrab.task where id = 22), 'for a day at most');
select pg_temp.put(23, 'max_attempts = 2, backoff = ''2 hours'', backoff_max = ''1 day''');
select pg_temp.finish(23, 'failed', -1 - 1000000);
select ok((select due_at > now() + interval '90 minutes' from pgrab.task where id = 23),
  'and its own backoff holds all the same');
delete from pgrab.task where id in (21, 22, 23);
select pg_temp.put(3, 'delivery = ''at_most_once''');
select pg_temp.finish(3, 'lost');
select is(pg_temp.task(3), 'scheduled 11:00 11:00 0 1 1 1 lost',
  'at most once: a lost run is not repeated, the schedule goes on');
select pg_temp.put(4, 'max_runs = 1');
select pg_temp.finish(4, 'succeeded');
select is(pg_temp.task(4), null, 'the last fire of max_runs ends the task');
select is((select ended || ' ' || (definition ->> 'schedule') from pgrab.run where task_id = 4),
  'done 0 * * * *', 'with its definition in the history');
select pg_temp.put(15, 'max_runs = 1, max_attempts = 3');
select pg_temp.finish(15, 'failed');
select is((select status from pgrab.cancel(15)), 'cancelled',
  'a fire that is cancelled between two attempts counts for max_runs');
select pg_temp.put(5, 'ends_at = ''2026-01-01 10:30Z''');
select pg_temp.finish(5, 'failed');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 3
where id = 5;
select pg_temp.finish(5, 'failed');
select is(pg_temp.task(5), 'parked 10:00 3 1 2 2 failed', 'a last fire that failed waits for a person');
select results_eq('select status, attempt from pgrab.retry(5)', $$values ('scheduled', 0)$$,
  'who can try it again');
select pg_temp.put(6, 'schedule = ''@after 1h''');
select pg_temp.finish(6, 'succeeded');
select is((select fire_at - last_finished_at from pgrab.task where id = 6), '1 hour',
  '@after counts from the end of the run');
select pg_temp.put(7, 'paused = true');
select pg_temp.finish(7, 'succeeded');
select is(pg_temp.task(7), 'scheduled 11:00 0 1 1 0 succeeded',
  'a task that was paused while it ran is planned and not due');
select pg_temp.put(8, 'name = ''moved''');
update pgrab.task set run_at = '2030-01-01 07:00Z' where id = 8;
select pg_temp.finish(8, 'succeeded');
select is((select fire_at from pgrab.task where id = 8), '2030-01-01 07:00Z',
  'a run_at written while it ran is the next fire');
select pg_temp.put(9, 'schedule = null');
select pg_temp.finish(9, 'succeeded');
select is(pg_temp.task(9), null, 'a schedule taken away while it ran: the run was the last');
select pg_temp.put(10, 'schedule = null, max_attempts = 1');
update pgrab.task set run_at = '2030-01-01 07:00Z', command = 'second' where id = 10;
select pg_temp.finish(10, 'failed');
select is(pg_temp.task(10), 'scheduled 07:00 07:00 0 1 1 1 failed',
  'a one-shot task that was given a new run_at while it ran, runs again');
select pg_temp.put(11, 'schedule = null');
select throws_ok('update pgrab.task set id = 12 where id = 11', '428C9', null, 'a task keeps its number');
select ok(pgrab_internal.retry_wait('365 days', '365 days', 1000) between '328 days' and '402 days',
  'no wait is out of range');
insert into pgrab.task (id, kind, schedule, starts_at) overriding system value values
  (12, 'noop', '0 * * * *', '2100-06-01 00:30Z'), (13, 'noop', '@every 1h', '2100-06-01 00:30Z');
select count(*) from pgrab.run_now(array[12, 13]);
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id in (12, 13);
select pg_temp.finish(12, 'succeeded'), pg_temp.finish(13, 'succeeded');
select is((select fire_at from pgrab.task where id = 12), '2100-06-01 01:00Z',
  'what a person made run before starts_at does not begin the schedule');
select is((select fire_at from pgrab.task where id = 13), '2100-06-01 00:30Z', 'neither with @every');
insert into pgrab.task (id, kind, schedule, jitter) overriding system value values
  (14, 'noop', '@daily', '2 hours');
select is((select due_at <= clock_timestamp() from pgrab.run_now(14)), true,
  'run_now does not wait for the jitter');
-- many at once
insert into pgrab.task (id, kind, schedule, run_at) overriding system value
select i, 'noop', case when i % 2 = 0 then '0 * * * *' else '*/10 * * * *' end, '2026-01-01 10:00Z'
from generate_series(1000, 1999) i;
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id >= 1000;
select is((select count(*) from pgrab_internal.finish((
      (select array_agg(i) from generate_series(1000, 1999) i), array_fill(7::bigint, array[1000]),
      array_fill(11::bigint, array[1000]), array_fill(1::bigint, array[1000]),
      array_fill(0::bigint, array[1000]), array_fill('succeeded'::text, array[1000]),
      null, null, null, null, null, null)::pgrab_internal.outcomes, 1, 'n1')),
  1000::bigint, 'a thousand at once');
select is((select string_agg(distinct format('%s %s', id % 2, to_char(fire_at, 'HH24:MI')), ', ')
    from pgrab.task where id >= 1000), '0 11:00, 1 10:10', 'each to its own next fire');
delete from pgrab.task; delete from pgrab.run;

create function pg_temp.settle(variadic p_ids bigint[]) returns bigint language sql as $$
  select pgrab_internal.misfire(array_agg(t.id order by t.id), array_agg(t.version order by t.id))
  from pgrab.task t where t.id = any (p_ids)
$$;
-- misfires: an hourly task, planned for 10:00 three hours and five minutes ago
create function pg_temp.late(p_id bigint, p_misfire text, p_schedule text default '@every 1h',
  p_ago interval default '3 hours 5 minutes') returns text
language plpgsql as $$
begin
  insert into pgrab.task (id, kind, schedule, misfire, misfire_limit, run_at) overriding system value values
    (p_id, 'noop', p_schedule, p_misfire, 2, clock_timestamp() - p_ago);
  return pg_temp.settle(p_id);
end $$;
create function pg_temp.missed(p_id bigint) returns text language sql as $$
  select count(*) || ' ' || coalesce(string_agg(distinct outcome, ','), '') from pgrab.run
  where task_id = p_id
$$;
create function pg_temp.when_due(p_id bigint) returns text language sql as $$
  select format('fire %s, due %s, %s', to_char(clock_timestamp() - fire_at, 'HH24:MI'),
    to_char(clock_timestamp() - due_at, 'HH24:MI'), status)
  from pgrab.task where id = p_id
$$;
select is(pg_temp.late(1, 'once'), '1', 'a late task is settled');
select is(pg_temp.when_due(1) || '; ' || pg_temp.missed(1), 'fire 00:05, due 03:05, scheduled; 3 missed',
  'once: the latest fire runs, in its old place in the queue; those before it are recorded as missed');
select is(pg_temp.settle(1), 0::bigint, 'the catch-up run is not late itself');
select pg_temp.late(2, 'skip');
select is(
  (select count(*) from pgrab.run where task_id = 2 and outcome = 'missed') || ' '
    || (select to_char(fire_at - clock_timestamp() + interval '1 s', 'HH24:MI') from pgrab.task where id = 2),
  '4 00:55', 'skip: all are recorded, the next one comes in time');
select pg_temp.late(3, 'all');
select is(
  (select to_char(clock_timestamp() - fire_at, 'HH24:MI') from pgrab.task where id = 3)
    || '; ' || pg_temp.missed(3),
  '01:05; 2 missed', 'all: the latest misfire_limit fires run, the rest is recorded');
select is((select due_at <= clock_timestamp() from pgrab.task where id = 3), true,
  'the first of them at once');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 3;
select pg_temp.finish(3, 'succeeded');
select is(pg_temp.when_due(3), 'fire 00:05, due 00:05, scheduled', 'then the one after it');
select is(pg_temp.settle(3) || ' ' || pg_temp.when_due(3), '1 fire 00:05, due 00:05, scheduled',
  'which is late too, and kept');
select is(pg_temp.late(4, 'once', '@every 1h', '30 s'), '0', 'thirty seconds are not late');
select is(pg_temp.late(5, 'once', '@every 1s', '1 hour'), '1', 'very many missed fires');
select is((select count(distinct fire_at) from pgrab.run where task_id = 5), 100::bigint,
  'the first hundred have a row each');
select matches((select error from pgrab.run where task_id = 5 order by fire_at desc limit 1),
  '; nor any other before ', 'the last of these speaks for the others');
select is((select fire_at > clock_timestamp() - interval '2 s' from pgrab.task where id = 5), true,
  'the latest runs');
select is(pg_temp.late(105, 'all', '* * * * * *', '1 day'), '1', 'also by the calendar');
select is((select fire_at between clock_timestamp() - interval '4 s' and clock_timestamp() - interval '1 s'
    from pgrab.task where id = 105), true, 'the latest misfire_limit of them run');
insert into pgrab.task (id, kind, misfire, run_at) overriding system value values
  (6, 'noop', 'skip', now() - interval '1 hour'), (7, 'noop', 'once', now() - interval '1 hour');
select is(pg_temp.settle(6, 7), 1::bigint, 'a one-shot task may say skip');
select is((select string_agg(outcome || ' ' || ended, ',') from pgrab.run where task_id in (6, 7)),
  'missed skipped', 'then it ends, recorded');
insert into pgrab.task (id, kind, schedule, misfire, run_at, ends_at) overriding system value values
  (8, 'noop', '@every 1h', 'skip', now() - interval '2 hours 5 minutes', now() - interval '30 minutes');
select pg_temp.settle(8);
select is(
  pg_temp.missed(8) || (select count(*) from pgrab.task where id = 8)
    || (select count(*) from pgrab.run where task_id = 8 and ended = 'skipped'),
  '2 missed01', 'a schedule that ended meanwhile leaves');
select is(pg_temp.late(9, 'once', '@after 1h') || ' ' || pg_temp.when_due(9),
  '1 fire 03:05, due 03:05, scheduled', '@after has missed one fire only');
delete from pgrab.task; delete from pgrab.run;

-- A run_at that is given while it runs stays the next fire when that run could not begin after all.
insert into pgrab.task (id, kind, schedule, run_at) overriding system value
values (2000, 'noop', '@daily', now() - interval '2 minutes');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 2000;
update pgrab.task set run_at = '2100-01-01 07:00Z' where id = 2000;
select pgrab_internal.move(array[pgrab_internal.move_to(2000, 7, 'unstart',
  p_due_at => now() - interval '2 minutes', p_attempt => 0)]);
select pg_temp.settle(2000);
select is((select run_at from pgrab.task where id = 2000 and settled), '2100-01-01 07:00Z',
  'settling its fire leaves a run_at alone that was given while it ran');

-- A node that settles looks at nothing else meanwhile.
create function pg_temp.settle_all() returns void language plpgsql as $$
begin
  while exists (
      select from (
        select array_agg(id order by id) as ids, array_agg(version order by id) as versions from pgrab.task) t
      where pgrab_internal.misfire(t.ids, t.versions) > 0) loop
  end loop;
end $$;
create function pg_temp.day_of_seconds(p_limit integer) returns void language sql as $$
  insert into pgrab.task (id, kind, schedule, timezone, misfire, misfire_limit, run_at)
  overriding system value
  select i, 'noop', '* * * * * *', 'Europe/Berlin', 'all', p_limit, now() - (i || ' s 1 day')::interval
  from generate_series(1, 100) i
$$;
select pg_temp.day_of_seconds(100000);
select performs_ok('select pg_temp.settle_all()', 2000,
  'a hundred schedules of seconds, a day late, are settled in two seconds');
select is((select count(*) from pgrab.task where settled and fire_at < now() - interval '1 day'), 100::bigint,
  'all of their fires will run');
delete from pgrab.task;
select pg_temp.day_of_seconds(5000);
select performs_ok('select pg_temp.settle_all()', 2000, 'also when most of them will not');
select is((select count(*) from pgrab.task where settled
    and fire_at between clock_timestamp() - interval '5004 s' and clock_timestamp() - interval '4998 s'),
  100::bigint, 'the latest misfire_limit will run');
delete from pgrab.task;
insert into pgrab.task (id, kind, schedule, misfire, run_at) overriding system value
select i, 'noop', '* * * * *', 'once', now() - interval '1 day' from generate_series(1, 1500) i;
select cmp_ok((select pgrab_internal.misfire(array_agg(id order by id), array_agg(version order by id))
    from pgrab.task), '<', 1500::bigint, 'what takes too long is left to the next look');
delete from pgrab.task; delete from pgrab.run;

-- cancel, skip_next
insert into pgrab.task (id, kind, schedule, run_at) overriding system value values
  (1, 'noop', '0 * * * *', '2100-01-01 10:00Z'), (2, 'noop', null, '2100-01-01 10:00Z'),
  (3, 'noop', null, now());
select is((select (status, fire_at)::text from pgrab.skip_next(1)), '(scheduled,"2100-01-01 11:00:00+00")',
  'skip_next moves on');
select is((select outcome || ' ' || fire_at from pgrab.run where task_id = 1),
  'skipped 2100-01-01 10:00:00+00', 'and records it');
select throws_ok('select pgrab.skip_next(2)', '55000', 'task 2 is scheduled');
select is((select status from pgrab.cancel(2)), 'cancelled', 'cancel of a one-shot task');
select is((select status from pgrab.tasks where id = 2), 'cancelled', 'ends it');
select throws_ok('select pgrab.cancel(2)', 'P0002', 'task 2 has ended: cancelled');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1
where id = 3;
select is((select (status, version)::text from pgrab.cancel(3)), '(running,7)',
  'a running one is left to its node');
select pg_temp.finish(3, 'lost');
select is(
  (select outcome || ' ' || ended from pgrab.run where task_id = 3)
    || (select count(*) from pgrab.cancel_request where task_id = 3),
  'cancelled cancelled0', 'whoever ends the run sees that it was cancelled');


-- why it was missed
create function pg_temp.missed_why() returns text language sql as $$
  update pgrab.task set due_at = now() - interval '5 hours', fire_at = now() - interval '5 hours',
    run_at = now() - interval '5 hours', last_finished_at = null, last_outcome = null where id = 9901;
  select pgrab_internal.misfire(array[t.id], array[t.version]) from pgrab.task t where t.id = 9901;
  select split_part(r.error, '; ', 2) from pgrab.run r where r.task_id = 9901
  order by r.finished_at desc, r.version desc, r.fire_at desc limit 1
$$;
insert into pgrab.task (id, kind, schedule, misfire) overriding system value
values (9901, 'noop', '@every 1 day', 'skip');
select is(pg_temp.missed_why(), '', 'nothing is known');
insert into pgrab.node (id, name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every,
  dead_after, started_at, incarnation, state, heartbeat_at)
values (9901, 'late', 'h', 1, '1', 'id_hash', 2, '{noop}', '1 minute', '1 hour', now() - interval '2 hours',
  9911, 'up', now());
select matches(pg_temp.missed_why(), '^of the nodes that run it, late has been up for longest, since 20',
  'the node came later');
insert into pgrab.event (at, what, role, task_id, task)
values (now() - interval '1 hour', 'resume', 'anna', 9901, 'x');
select matches(pg_temp.missed_why(), '^it was paused, and anna resumed it at 20', 'it was paused');
insert into pgrab.event (what, role) values ('resume_all', 'ben');
select matches(pg_temp.missed_why(), '^all tasks were paused, and ben resumed them at 20', 'all were paused');

select * from finish();
rollback;
