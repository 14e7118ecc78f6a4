-- Calendars of tasks (migrations/api/25_replan.sql, 10_check.sql, 11_task.sql, 26_finish.sql).
begin;
select plan(30);
set local timezone = 'UTC';

-- All weekdays but today's, and those of the next two days, are closed: what is planned is known.
create function pg_temp.day(p_n integer) returns date
language sql as $$ select (now() at time zone 'UTC')::date + p_n $$;
insert into pgrab.calendar (name) values ('office'), ('other');
update pgrab.calendar set closed_weekdays = '{}' where name = 'office';
insert into pgrab.calendar_day (calendar, day, note)
select 'office', pg_temp.day(n), 'day ' || n from generate_series(1, 2) n;
delete from pgrab_internal.replan;

insert into pgrab.task (key, kind, schedule, calendar, on_closed) values
  ('skip', 'noop', '0 0 * * *', 'office', 'skip'), ('next', 'noop', '0 0 * * *', 'office', 'next'),
  ('plain', 'noop', '0 0 * * *', null, 'skip'), ('every', 'noop', '@every 1h', 'office', 'skip');
create view pg_temp.planned as
select key, (fire_at at time zone 'UTC')::date - pg_temp.day(0) as days from pgrab.task;
select results_eq('select key, days from pg_temp.planned where key <> ''every'' order by key',
  $$values ('next', 3), ('plain', 1), ('skip', 3)$$, 'a new task is planned on an open day');
select is((select string_agg(fire_at::date - pg_temp.day(0) || ' ' || outcome || ' ' || error, '; '
    order by fire_at)
    from pgrab.run where key = 'skip'),
  format('1 skipped calendar office is closed on %s: day 1; 2 skipped calendar office is closed on %s: day 2',
    to_char(pg_temp.day(1), 'Dy YYYY-MM-DD'), to_char(pg_temp.day(2), 'Dy YYYY-MM-DD')),
  'the fires before that are in the history');
select is((select count(*) from pgrab.run where key = 'next' and error like '%falls together%'), 2::bigint,
  'so are those that have become one with it');
select is((select count(*) from pgrab.run where key = 'plain'), 0::bigint, 'of a plain task there is none');

-- refusals
select throws_ok($$insert into pgrab.task (kind, schedule, calendar) values ('noop', '@daily', 'x')$$,
  '22023', 'task calendar cannot be ''x''');
select throws_ok($$insert into pgrab.task (kind, schedule, on_closed) values ('noop', '@daily', 'x')$$,
  '22023', 'task on_closed cannot be ''x''');
select throws_ok($$insert into pgrab.task (kind, schedule, calendar, on_closed)
  values ('noop', '@every 1h', 'office', 'next')$$, '22023', 'task on_closed cannot be ''next''');
select throws_ok($$update pgrab.task set on_closed = null where key = 'skip'$$, '23502');
select throws_ok($$insert into pgrab.task (kind, schedule, calendar) values
  ('noop', '0 9 * * SUN', 'other')$$, '22023', 'task calendar cannot be ''other''',
  'a schedule that never meets an open day');
select throws_ok($$update pgrab.calendar set closed_weekdays = '{mon,tue,wed,thu,fri,sat,sun}'
  where name = 'other'$$, '22023', 'calendar ''other'' has no open day in the next ten years');
select throws_ok($$update pgrab.calendar set closed_weekdays = '{monday}' where name = 'other'$$, '23514');
select throws_ok($$delete from pgrab.calendar where name = 'office'$$, '2BP01',
  'calendar ''office'' is used by tasks');

-- an edit
delete from pgrab.calendar_day where calendar = 'office' and day = pg_temp.day(2);
select is((select count(*) from pgrab_internal.replan), 1::bigint, 'an edit leaves a row');
select is((select done > 0 from pgrab_internal.calendars_tick()), true, 'a node plans its tasks again');
select results_eq('select key, days from pg_temp.planned where key <> ''every'' order by key',
  $$values ('next', 2), ('plain', 1), ('skip', 2)$$, 'to the day that is open now');
select is((select count(*) from pgrab.run where key = 'skip'), 2::bigint,
  'and the history says nothing twice');
select is((select started and not final and next_id is null from pgrab_internal.replan), true,
  'while the edit is not old, another round waits');
select is((select done from pgrab_internal.calendars_tick()), 0::bigint, 'and has nothing to do yet');
update pgrab_internal.replan set edit = '3';
select is((select done > 0 and not left_over from pgrab_internal.calendars_tick()), true,
  'the last round, when nobody plans with the calendar as it was');

-- by hand
select pgrab.skip_next('skip');
select is((select days from pg_temp.planned where key = 'skip'), 3, 'a fire that was skipped by hand');
update pgrab.task set run_at = '2100-01-01 12:00' where key = 'next';
insert into pgrab.task (key, kind, schedule, calendar, run_at)
values ('given', 'noop', '0 0 * * *', 'office', '2100-01-01 12:00');
update pgrab.calendar_day set day = pg_temp.day(5) where calendar = 'office';
select count(*) from pgrab_internal.calendars_tick();
select is((select days from pg_temp.planned where key = 'skip'), 1,
  'comes not back, but an earlier one that is open does');
select is((select fire_at from pgrab.task where key = 'given'), '2100-01-01 12:00Z'::timestamptz,
  'a time that was given by hand stays');

-- what is due, or runs, is left alone, and reads the calendar at its end
insert into pgrab.task (key, kind, schedule, calendar, run_at) values
  ('now', 'noop', '0 0 * * *', 'office', now());
update pgrab.task set status = 'running', node_id = 1, incarnation = 7, attempt = 1, claimed_at = now(),
  started_at = now(), version = version + 1 where key = 'now';
insert into pgrab.calendar_day (calendar, day, note) values ('office', pg_temp.day(1), 'closed late');
select count(*) from pgrab_internal.calendars_tick();
select is((select status from pgrab.task where key = 'now'), 'running', 'a run goes on');
select is(cardinality(pgrab_internal.finish_many((array[t.id], array[t.version], array[7::bigint],
    array[0::bigint], array[0::bigint], array['succeeded'], array[null::integer], array[null::text],
    array[false], array[null::text], null, null)::pgrab_internal.outcomes, 1, 'n1')), 1, 'it ends')
from pgrab.task t where t.key = 'now';
select is((select days from pg_temp.planned where key = 'now'), 2, 'and is planned on an open day');
select is((select string_agg(outcome || ' ' || coalesce(error, ''), '; ' order by fire_at)
    from pgrab.run where key = 'now'),
  format('succeeded ; skipped calendar office is closed on %s: closed late',
    to_char(pg_temp.day(1), 'Dy YYYY-MM-DD')),
  'what lies between is in the history');
select is((select node is null and incarnation is null and attempt = 0 and started_at is null
    from pgrab.run where key = 'now' and outcome = 'skipped'), true, 'as a fire without a run');

-- explain, definition, forecast, views
select is((select verdict from pgrab.explain('now') where gate = 'calendar'), 'ok',
  'explain says what today is');
select is((select pgrab.definition(id) - '{kind}'::text[] from pgrab.task where key = 'next'),
  '{"key": "next", "calendar": "office", "on_closed": "next", "schedule": "0 0 * * *"}'::jsonb,
  'its definition');
select is((select tasks from pgrab.calendars where name = 'office'), 5::bigint, 'the view counts tasks');
select * from finish();
rollback;
