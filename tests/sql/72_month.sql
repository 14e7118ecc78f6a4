-- The month of schedules: as many fires in each hour as the calendar tells.
begin;
\ir nodes.inc
select plan(19);
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
values ('n1', 'h', 1, '1', 'id_hash', 2, '{shell}', '1 s', '1 hour', now(), 1, 'up', now());

-- Whole hours from the next one on: the first fire of each and how many there are, against each fire.
create function pg_temp.differ(p_schedule text, p_timezone text, p_days integer) returns bigint
language sql as $$
  with s as (
    select date_trunc('hour', now()) + interval '1 hour' as since,
      date_trunc('hour', now()) + make_interval(days => p_days) as until),
  told as (
    select date_bin('1 hour', f.at, timezone(p_timezone, current_date::timestamp)) as hour, min(f.at) as at,
      sum(f.fires) as fires
    from s cross join pgrab_internal.fires_hourly(p_schedule, p_timezone,
      s.since - interval '1 us', s.until, null, 'skip') f
    where f.at >= s.since group by 1),
  each as (
    select date_bin('1 hour', f.f, timezone(p_timezone, current_date::timestamp)) as hour, min(f.f) as at,
      count(*) as fires
    from s cross join pgrab.fires(p_schedule, p_timezone, s.since - interval '1 us', s.until) f(f)
    group by 1)
  select count(*) from s cross join (each e full join told t on t.hour = e.hour)
  where coalesce(e.hour, t.hour) < s.until - interval '1 hour'
    and coalesce(e.hour, t.hour) >= s.since + interval '1 hour'
    and (e.fires is distinct from t.fires or e.at is distinct from t.at)
$$;
select is(pg_temp.differ('*/5 * * * *', 'UTC', 31), 0::bigint, 'every five minutes');
select is(pg_temp.differ('7,50 9-17 * * MON-FRI', 'Asia/Kolkata', 31), 0::bigint,
  'where zones have half an hour');
select is(pg_temp.differ('30 2 1 * *', 'Europe/Berlin', 62), 0::bigint, 'once a month');
select is(pg_temp.differ('10,20 * * * * *', 'America/New_York', 2), 0::bigint, 'with seconds');
select is(pg_temp.differ('@every 17m', 'UTC', 31), 0::bigint, 'an interval keeps its distance');
select is(pg_temp.differ('@every 100m', 'UTC', 31), 0::bigint, 'a long one, too');
select is((select min(f.at) - now() from pgrab_internal.fires_hourly('@every 40m', 'UTC',
  now() - interval '10 h 10 min', now() + interval '1 day', null, 'skip') f), interval '30 min',
  'from the fire that it counts from, however long ago');

insert into pgrab.task (id, name, kind, command, schedule, timezone) overriding system value
select g, 'report ' || g, 'shell', 'x', '0 6 * * MON', 'Europe/Berlin' from generate_series(1, 3) g;
insert into pgrab.task (id, name, kind, command, schedule) overriding system value
values (4, 'often', 'shell', 'x', '*/10 * * * *');
insert into pgrab.blackout (name, schedule, lasts, timezone, action)
values ('sunday', '0 0 * * SUN', '1 day', 'Europe/Berlin', 'hold');
create temp table told as select m.*, extract(isodow from m.day) as weekday
  from pgrab.month('Europe/Berlin') m;
select is((select count(*) between 743 and 745 from told), true, 'a month, by the hour');
select results_eq($$select distinct fires, tasks, at_once, slots, names from told
  where weekday = 1 and hour = 6 and day > (select min(day) from told)$$, -- of today's hour a part is over
  $$values (9::bigint, 4::bigint, 4::bigint, 2::bigint, 'often, report 1, report 2, report 3')$$,
  'Monday at six, by the clock of that zone: three reports and six others');
select results_eq($$select distinct fires, tasks, at_once from told
  where weekday = 2 and hour = 6 and day > (select min(day) from told)$$,
  $$values (6::bigint, 1::bigint, 1::bigint)$$, 'on Tuesday they do not fire');
select is((select string_agg(distinct weekday::text, '') from told where blackouts = 'sunday'), '7',
  'a blackout is there when it is on');
select is((select bool_and(complete) from told), true, 'and nothing is left out');
select is((select count(distinct day) between 1 and 4 from pgrab.month('UTC', 31, 72)), true,
  'less days when there is too much to tell');
insert into pgrab.task (id, name, kind, command, schedule) overriding system value
select 100 + g, 'same ' || g, 'shell', 'x', '*/5 * * * *' from generate_series(1, 60) g;
select results_eq($$select count(distinct day), max(tasks) filter (where hour = 12), max(at_once)
    filter (where hour = 12), max(fires) filter (where hour = 12) from pgrab.month('UTC', 3, 250)$$,
  $$values (3::bigint, 61::bigint, 61::bigint, 726::bigint)$$,
  'those that fire together cost as much as one');
delete from pgrab.task;
insert into pgrab.limit (key, max_running) values ('tape', 1), ('wide', 2);
insert into pgrab.task (id, name, kind, command, schedule, limit_key) overriding system value
values (1, 'first', 'shell', 'x', '0 3 * * *', 'wide'), (2, 'second', 'shell', 'x', '0 3 * * *', 'wide'),
  (3, 'new', 'shell', 'x', '20,40 3 * * *', null), (4, 'zebra', 'shell', 'x', '0 4 * * *', 'tape'),
  (5, 'yak', 'shell', 'x', '0 4 * * *', 'tape'), (6, 'early', 'shell', 'x', '59 2 * * *', null);
update pgrab.task set durations = '\x8c' where id in (1, 6);
select results_eq($$select distinct tasks, at_once, names, more from pgrab.month('UTC', 3) where hour = 3
    and day > timezone('UTC', now())::date$$,
  $$values (3::bigint, 3::bigint, 'early, first, second, new (03:20)', 0::bigint)$$,
  'those at work when it is most, and then the others of that hour, whether or not they have ever run');
select results_eq($$select distinct names, more from pgrab.month('UTC', 3, 10000, 2) where hour = 3
    and day > timezone('UTC', now())::date$$,
  $$values ('early, first', 2::bigint)$$, 'all that are not named are counted');
select results_eq($$select distinct hour, crew, at_once, slots, names from pgrab.month('UTC', 3)
    where at_once > slots and crew like 'limit%'$$,
  $$values (4, 'limit tape', 2::bigint, 1::bigint, 'yak, zebra')$$,
  'a limit that some have to wait for is a clash, too');
update pgrab.node set slots = 0;
select is((select bool_and(crew = 'limit tape') from pgrab.month('UTC', 3) where hour = 4
    and fires > 0), true, 'and when no node has a slot');
select throws_ok($$select pgrab.month('Europe/Nowhere')$$, '22023', null, 'no such zone');
select * from finish();
rollback;
