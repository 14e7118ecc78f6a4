-- Blackouts (migrations/api/25_blackout.sql).
begin;
\ir limit.inc
select plan(87);
set local timezone = 'UTC';

-- ---------------------------------------------------------------------------------------------- the window
create function pg_temp.span(p_schedule text, p_lasts interval, p_zone text, p_at timestamptz) returns text
language sql as $$
  select s.begins_at || ' ' || s.ends_at || case when s.goes_on then ' and on' else '' end
  from pgrab_internal.blackout_span(jsonb_populate_record(null::pgrab_internal.blackout, jsonb_build_object(
    'schedule', p_schedule, 'lasts', p_lasts, 'timezone', p_zone)), p_at) s
$$;
select is(pg_temp.span('0 22 * * SAT', '8 h', 'Europe/Berlin', '2026-11-28 20:59Z'),
  '2026-11-28 21:00:00+00 2026-11-29 05:00:00+00', 'the next one');
select is(pg_temp.span('0 22 * * SAT', '8 h', 'Europe/Berlin', '2026-11-29 04:59:59Z'),
  '2026-11-28 21:00:00+00 2026-11-29 05:00:00+00', 'the one that is on');
select is(pg_temp.span('0 22 * * SAT', '8 h', 'Europe/Berlin', '2026-11-29 05:00Z'),
  '2026-12-05 21:00:00+00 2026-12-06 05:00:00+00', 'it does not include its end');
select is(pg_temp.span('0 22 * * SAT', '8 h', 'Europe/Berlin', '2026-03-29Z'),
  '2026-03-28 21:00:00+00 2026-03-29 05:00:00+00', 'hours are elapsed time when the clock changes');
select is(pg_temp.span('0 0 * * SUN', '1 day', 'Europe/Berlin', '2026-03-29 12:00Z'),
  '2026-03-28 23:00:00+00 2026-03-29 22:00:00+00', 'a day ends at midnight: in spring after 23 hours');
select is(pg_temp.span('0 0 * * SUN', '1 day', 'Europe/Berlin', '2026-10-25 22:59Z'),
  '2026-10-24 22:00:00+00 2026-10-25 23:00:00+00', 'in autumn after 25');
select is(pg_temp.span('0 0 * * SUN', '1 day 2:00', 'Europe/Berlin', '2026-10-25 12:00Z'),
  '2026-10-24 22:00:00+00 2026-10-26 01:00:00+00', 'days first, and then hours');
select is(pg_temp.span('30 2 * * *', '1 h', 'Europe/Berlin', '2026-03-29 00:30Z'),
  '2026-03-29 01:00:00+00 2026-03-29 02:00:00+00', 'it begins at the end of a gap');
select is(pg_temp.span('0 0 * * SAT,SUN', '1 day', 'UTC', '2026-11-29 12:00Z'),
  '2026-11-28 00:00:00+00 2026-11-30 00:00:00+00', 'two without a gap are one');
select is(pg_temp.span('0 0 * * FRI,SAT,SUN', '1 day', 'UTC', '2026-11-29 23:00Z'),
  '2026-11-27 00:00:00+00 2026-11-30 00:00:00+00', 'a row of them begins with the first');
select is(pg_temp.span('0 6 * * MON-FRI', '24 h', 'Europe/Berlin', '2026-11-27 12:00Z'),
  '2026-11-23 05:00:00+00 2026-11-28 05:00:00+00', 'also of windows of so many hours');
select is(pg_temp.span('0 * * * *', '90 min', 'UTC', '2026-11-29 12:00Z') ~ '^2026-11-29 .* and on$', true,
  'some never end');
select is(pg_temp.span('* * * * MON-FRI', '1 min', 'UTC', '2026-11-27 12:00Z') ~ ' 2026-11-28 00:00:00\+00$',
  true, 'a row of many ends');
select is(pg_temp.span('* * * * MON-FRI', '1 min', 'UTC', '2026-11-23 12:00Z') ~ '-24 04:40:00\+00 and on$',
  true, 'of very many so many are told');
select is(pg_temp.span('* * * * SAT', '1 day', 'UTC', '2026-11-29 23:58Z') ~ ' 2026-11-29 23:59:00\+00$',
  true, 'also when each of them takes in the next thousand');
select is(pg_temp.span('0 0 29 2 *', '1 h', 'UTC', '2096-03-01Z'),
  '2104-02-29 00:00:00+00 2104-02-29 01:00:00+00', 'some are rare');

create function pg_temp.refused(p_values text, p_column text) returns text language plpgsql as $$
declare
  v_column text;
begin
  execute 'insert into pgrab.blackout ' || p_values;
  return 'taken';
exception when invalid_parameter_value then
  get stacked diagnostics v_column = column_name;
  return case v_column when p_column then 'refused' else format('%s: %s', v_column, sqlerrm) end;
end $$;
select is(pg_temp.refused(v, c), 'refused', v)
from (values ('default values', 'during'), ('(during) values (''empty'')', 'during'),
  ('(during) values (tstzrange(now(), null))', 'during'),
  ('(during) values (tstzrange(now(), ''infinity''))', 'during'),
  ('(during) values (tstzrange(now(), ''10000-01-01''))', 'during'),
  ('(during, schedule, lasts) values (tstzrange(now(), now() + ''1 h''), ''@daily'', ''1 h'')', 'during'),
  ('(schedule) values (''@daily'')', 'lasts'), ('(schedule, lasts) values (''@daily'', ''-1 h'')', 'lasts'),
  ('(during, lasts) values (tstzrange(now(), now() + ''1 h''), ''1 h'')', 'lasts'),
  ('(schedule, lasts) values (''@daily'', ''1 day'')', 'lasts'),
  ('(schedule, lasts) values (''* * * * *'', ''1 day'')', 'lasts'),
  ('(schedule, lasts) values (''@every 1h'', ''1 min'')', 'schedule')) r(v, c);
select throws_ok($$insert into pgrab.blackout (name, during, task_like)
  values ('w', tstzrange(now(), now() + '1 h'), E'a\\')$$, '22025',
  'the pattern of blackout ''w'' cannot be E''a\\''');
select throws_ok($$insert into pgrab.blackout (schedule, lasts) values ('0 0 30 2 *', '1 h')$$, '22023',
  'invalid schedule "0 0 30 2 *": it can never fire');
select throws_ok($$insert into pgrab.blackout (schedule, lasts, timezone) values ('@daily', '1 h', 'X')$$,
  '22023', 'invalid timezone "X": not the name of a time zone');
select throws_ok($$insert into pgrab.blackout (during, action)
  values (tstzrange(now(), now() + '1 h'), 'stop')$$, '23514');

-- -------------------------------------------------------------------------------------------------- to hold
-- What a look does with what it finds shut, or late.
create function pg_temp.settle() returns bigint language sql as $$
  select pgrab_internal.misfire(array_agg(t.id order by t.id), array_agg(t.version order by t.id))
  from pgrab.task t where t.status = 'scheduled' and t.due_at <= clock_timestamp()
$$;
create function pg_temp.lets_go() returns bigint language sql as $$
  update pgrab.duty set done_at = 'epoch' where duty = 'blackouts';
  select done from pgrab_internal.blackouts_tick()
$$;
-- all that is planned is planned by this much earlier, as if time had passed
create function pg_temp.pass(p_time interval) returns void language plpgsql as $$
begin
  alter table pgrab.task disable trigger user;
  alter table pgrab.blackout disable trigger user;
  update pgrab.task set due_at = due_at - p_time, fire_at = fire_at - p_time,
    run_at = run_at - p_time;
  update pgrab_internal.put_off set until = until - p_time;
  update pgrab.blackout set during = tstzrange(lower(during) - p_time, upper(during) - p_time),
    begins_at = begins_at - p_time, ends_at = ends_at - p_time;
  alter table pgrab.task enable trigger user;
  alter table pgrab.blackout enable trigger user;
end $$;

insert into pgrab.task (key, kind, run_at)
select 'etl-' || i, 'noop', now() - i * interval '1 s' from generate_series(1, 20) i;
insert into pgrab.task (key, kind) values ('web', 'noop');
insert into pgrab.blackout (name, during, task_like, note)
values ('disks', tstzrange(now() - interval '1 min', now() + interval '2 h'), 'etl-%', 'new disks');
select is((select array_agg(pgrab_internal.shut(t.name, t.key, t.source, t.owner,
    clock_timestamp(), pgrab_internal.blackout_setters())
    order by t.key) from pgrab.task t where key in ('etl-1', 'web')), '{t,f}', 'it is shut for what matches');
select is(pg_temp.settle(), 20::bigint, 'a look sees to these');
select is((select string_agg(substr(key, 5), ' ' order by due_at) from pgrab.task where key <> 'web'),
  (select string_agg(i::text, ' ' order by i desc) from generate_series(1, 20) i),
  'they come in order');
select is((select bool_and(status = 'scheduled' and fire_at < now() and due_at > now() + interval '2 h')
    from pgrab.task where key <> 'web'), true, 'behind the end, with their planned time');
select is((select max(due_at) - min(due_at) between '1 s' and '2 s' from pgrab.task where key <> 'web'), true,
  'a tenth of a second apart');
select is((select extract(epoch from pgrab_internal.put_off_due('2000-01-01', null, n)
    - '2000-01-01')::integer from generate_series(1000, 1000) n), 59, 'a thousand in a minute');
select is((select extract(epoch from pgrab_internal.put_off_due('2000-01-01', null, 1000000)
    - '2000-01-01')::integer / 60), 7, 'a million in eight');
select is(date_trunc('milliseconds', pgrab_internal.put_off_due('2000-01-01',
    pgrab_internal.put_off_due('2000-01-01', null, 500), 7)),
  date_trunc('milliseconds', pgrab_internal.put_off_due('2000-01-01', null, 507)),
  'the next batch goes on where the last one ended');
insert into pgrab.task (key, kind) values ('etl-21', 'noop');
select pg_temp.settle();
select is((select max(due_at) filter (where key = 'etl-21') = max(due_at) from pgrab.task), true,
  'so what comes later comes last');
select is((select held || ' ' || tasks || ' ' || state from pgrab.blackouts), '21 etl-% on', 'the view');
select is((select due_at <= clock_timestamp() from pgrab.task where key = 'web'), true, 'others go on');
select is((select g.verdict || ': ' || g.detail from pgrab.explain('etl-1') g where g.gate = 'blackout'),
  format('waits: Blackout disks holds it until %s: new disks. '
    'select pgrab.delete_blackout(''disks'') ends it.', date_trunc('second', now() + interval '2 h')),
  'explain');
select is((select detail ~ 'after a blackout' and detail !~ 'run_now' from pgrab.explain('etl-1')
    where gate = 'due'), true,
  'explain says when it comes');
select is((select count(*) from pgrab.explain('web') where gate = 'blackout'), 0::bigint,
  'and nothing of others');

-- a longer window keeps them, a shorter one lets them go
update pgrab.blackout set during = tstzrange(lower(during), upper(during) + interval '1 h');
select is((select count(*) from pgrab_internal.let_go), 0::bigint, 'one that ends later lets nothing go');
select pg_temp.pass('2 h 1 min');
select pg_temp.settle();
select is((select min(due_at) > now() + interval '50 min' and count(distinct due_at) = 21
    from pgrab.task where key <> 'web'), true, 'at its old end they are held again');
update pgrab.blackout set during = tstzrange(lower(during), now() + interval '1 min');
select is((select count(*) from pgrab_internal.let_go), 1::bigint, 'one that ends sooner lets go');
select cmp_ok(pg_temp.lets_go(), '>=', 21::bigint, 'by a node');
select is((select string_agg(substr(key, 5), ' ' order by due_at) from pgrab.task where key <> 'web'),
  (select string_agg(i::text, ' ' order by i desc) from generate_series(1, 20) i) || ' 21',
  'in the same order');
select is((select min(due_at) < now() + interval '10 s' and max(due_at) - min(due_at) between '1 s' and '3 s'
    from pgrab.task where key <> 'web'), true, 'from now on, one after the other');
select is((select count(*) from pgrab_internal.put_off), 0::bigint, 'nothing is held');
select pg_temp.pass('5 s');
select pg_temp.settle();
select is((select min(due_at) > now() + interval '50 s' from pgrab.task where key <> 'web'), true,
  'and a look holds them until the new end');

-- ---------------------------------------------------------------------------------------------- its end
delete from pgrab.event;
select is((select pgrab.delete_blackout('disks')), true, 'it is ended');
select is((select state || ' ' || (ends_at <= now() + interval '1 min') from pgrab.blackouts), 'over true',
  'and stays as a window that is over');
select is((select what || ' ' || task || ' ' || (detail -> 'update' ->> 'note') from pgrab.event),
  'blackout disks new disks', 'the event');
select pg_temp.lets_go();
select is((select max(due_at) < now() + interval '20 s' from pgrab.task), true, 'what it held is let go');
select pgrab.delete_blackout('disks');
select is((select count(*) from pgrab.blackout), 0::bigint, 'one that is over is deleted');
select is(pgrab.delete_blackout('disks'), false, 'then there is none');
select pg_temp.lets_go();
update pgrab_internal.let_go set edit = '3';
select pg_temp.lets_go();
select is((select count(*) from pgrab_internal.let_go), 0::bigint, 'nothing is left of it');
delete from pgrab.task;

-- --------------------------------------------------------------------------------------------------- to skip
insert into pgrab.task (key, kind, schedule) values ('hourly', 'noop', '@hourly');
insert into pgrab.task (key, kind, attempt) values ('tried', 'noop', 0), ('once', 'noop', 0);
update pgrab.task set attempt = 1 where key = 'tried';
insert into pgrab.blackout (name, during, action, note)
values ('feast', tstzrange(now() - interval '3 h', now() + interval '30 min'), 'skip', 'nobody is here');
select fire_at - (now() - interval '10 s') as time from pgrab.task where key = 'hourly' \gset
select pg_temp.pass(:'time');
update pgrab.blackout set during = tstzrange(now() - interval '3 h', now() + interval '30 min');
select is((select count(*) from pgrab.forecast('20 min')), 1::bigint,
  'forecast: what has begun comes; the others are skipped');
select pg_temp.settle();
select is((select string_agg(key || ' ' || outcome || ' ' || error, ', ' order by key) from pgrab.run),
  'hourly skipped blackout feast: nobody is here, once skipped blackout feast: nobody is here',
  'the history says why');
select is((select array_agg(key order by key) from pgrab.task), '{hourly,tried}',
  'a task that runs once is gone');
select is((select due_at > now() + interval '30 min' from pgrab.task where key = 'tried'), true,
  'what has begun is held');
select is((select fire_at > now() and status = 'scheduled' from pgrab.task where key = 'hourly'), true,
  'a schedule goes on');
delete from pgrab.task;
delete from pgrab.blackout;
delete from pgrab.run;

-- ----------------------------------------------------------------- fires that fall into one window, and late
insert into pgrab.task (key, kind, schedule, misfire) values
  ('once', 'noop', '* * * * *', 'once'), ('all', 'noop', '* * * * *', 'all'),
  ('none', 'noop', '* * * * *', 'skip');
update pgrab.task set run_at = date_trunc('minute', now()) - interval '2 h';
insert into pgrab.blackout (name, during)
values ('night', tstzrange(now() - interval '3 h', now() - interval '10 s'));
select pg_temp.settle();
select is((select count(*) from pgrab.run), 0::bigint, 'what no node has seen in the window is not missed');
select is((select bool_and(due_at = now() - interval '10 s') from pgrab.task), true,
  'how late it is counts from the end of the window');
update pgrab.task set last_finished_at = now(), last_outcome = 'succeeded';
update pgrab.task set due_at = fire_at; -- as the end of a run plans the next fire
select pg_temp.settle();
select is((select string_agg(key || ' ' || n, ', ' order by key) from (
    select key, outcome || ' ' || count(*) as n from pgrab.run group by key, outcome) x),
  'none skipped 101, once skipped 101', 'a run at the end stands for all fires of the window');
select is((select string_agg(key || ' ' || (fire_at >= now() - interval '10 s'), ', ' order by key)
    from pgrab.task), 'all false, none true, once true', 'misfire all runs each of them');
select is((select error from pgrab.run where key = 'once' order by fire_at limit 1),
  'blackout night; the run at its end stands for it', 'and the history says so');
delete from pgrab.task;
delete from pgrab.run;

-- ------------------------------------------------------------------------------------------------- the limit
insert into pgrab.limit (key, max_running) values ('disk', 1);
select pg_temp.add('disk') as one, pg_temp.add('disk') as two, pg_temp.add('disk') as three \gset
update pgrab.task set name = 'etl' where id = :two;
select pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three);
insert into pgrab.blackout (name, during, task_like)
values ('place', tstzrange(now() - interval '1 min', now() + interval '1 h'), 'etl');
select pg_temp.ends(:one, pg_temp.version(:one));
select is((select string_agg(format('%s %s', t.id - :one, t.due_at is not null), ', ' order by t.id)
    from pgrab.task t where t.id > :one), '1 t, 2 f', 'a place is kept for the first in line');
select pg_temp.settle();
select is((select due_at > now() + interval '30 min' from pgrab.task where id = :two), true, 'which is held');
select is((select string_agg(task_id::text, ',') from pgrab.limit_place), :'three',
  'the place goes to the next');
delete from pgrab.task;
delete from pgrab.blackout;

-- ----------------------------------------------------------------------------------- the turn, and forecast
insert into pgrab.blackout (name, schedule, lasts) values ('weekly', '0 3 * * SUN', '2 h');
insert into pgrab.task (key, kind, schedule, misfire) values ('f', 'noop', '*/30 * * * *', 'once');
select is((select count(*) from pgrab.forecast('8 days') f
    where f.fire_at >= b.begins_at and f.fire_at < b.ends_at), 0::bigint, 'forecast: nothing in a window')
from pgrab.blackout b;
select is((select string_agg(node, ', ' order by node) from pgrab.forecast('8 days') f
    where f.fire_at = b.ends_at),
  '(after blackout weekly), (no node can)', 'and one at its end') from pgrab.blackout b;
select is((select count(*) from pgrab.forecast('8 days') f where f.fire_at = b.ends_at and node ~ 'weekly'),
    1::bigint, 'one stands for those that are too late by then') from pgrab.blackout b;
update pgrab.task set misfire_after = '45 min';
update pgrab.blackout set lasts = '40 min';
select is((select count(*) from pgrab.forecast('8 days') f where f.fire_at = b.ends_at and node ~ 'weekly'),
    2::bigint, 'each runs that is not') from pgrab.blackout b;
insert into pgrab.blackout (name, schedule, lasts) values ('then', '30 3 * * SUN', '2 h');
select is((select count(*) from pgrab.forecast('8 days') f join pgrab.blackout b on f.fire_at = b.ends_at
    where b.name = 'weekly'), 0::bigint, 'none comes at the end of a window in which another has begun');
update pgrab.blackout set schedule = '0 */2 * * *', lasts = '1 h' where name = 'then';
insert into pgrab.blackout (name, schedule, lasts) values ('than', '0 1-23/2 * * *', '1 h');
select is((select count(*) from pgrab.forecast('8 days')), 0::bigint, 'windows that take turns have no end');
delete from pgrab.blackout where name in ('then', 'than');
update pgrab.blackout set task_like = 'none' where name = 'weekly';
insert into pgrab.blackout (name, during)
values ('now', tstzrange(now() - interval '1 h', now() + interval '2 h'));
select is((select count(*) from pgrab.forecast('8 h', 5) f where f.fire_at >= now() + interval '2 h'),
  5::bigint, 'the fires that come are counted, and not those of a window');
update pgrab.task set run_at = now();
select pg_temp.settle();
select is((select count(*) || ' ' || min(f.node) from pgrab.forecast('8 h', 5) f
    where f.fire_at >= now() + interval '2 h'), '5 (after blackout now)', 'also when one is held already');
delete from pgrab.blackout where name = 'now';
insert into pgrab.blackout (name, schedule, lasts, action) values ('half', '15 * * * *', '30 min', 'skip');
update pgrab.task set max_runs = 3, run_at = date_trunc('hour', now()) + interval '1 h';
select is((select string_agg(extract(minute from f.fire_at)::text, ' ') from pgrab.forecast('8 h') f),
  '0 0 0', 'what is skipped does not count as one of max_runs');
update pgrab.task set schedule = '@every 15m', run_at = date_trunc('hour', now()) + interval '2 h';
select is((select string_agg(extract(minute from f.fire_at)::text, ' ') from pgrab.forecast('8 h') f),
  '0 45 0', 'an interval goes on counting');
update pgrab.task set schedule = '*/30 * * * *', max_runs = null;
delete from pgrab.blackout where name = 'half';
update pgrab.blackout set task_like = null;
update pgrab.blackout set begins_at = now() - interval '9 days', ends_at = now() - interval '8 days';
select is(pgrab_internal.shut('x', null, '', 'x', clock_timestamp(), null), false,
  'what is noted of a window that is over is not taken for now');
-- Of whose tasks they may be is known before each of them is asked.
delete from pgrab.blackout;
insert into pgrab.blackout (name, during, set_by) values ('a', '[2000-01-01, 2200-01-01)', 'who_%');
select is(pgrab_internal.blackout_patterns(), array[E'%\x01%'], 'one role does everything');
update pgrab.cluster set roles = true;
select is(pgrab_internal.blackout_patterns(), array[E'who\\_\\%\x01%'], 'those of a role are for its own');

select * from finish();
rollback;
