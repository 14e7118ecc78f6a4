-- Open days (migrations/api/21_closed_days.sql). Every expected instant was worked out by hand, in UTC.
begin;
select plan(36);
set local timezone = 'UTC';

insert into pgrab.calendar (name) values ('office');
insert into pgrab.calendar_day (calendar, day, open, note) values
  ('office', '2026-12-25', false, 'Christmas Day'), ('office', '2026-12-28', false, null),
  ('office', '2026-12-19', true, 'stocktaking');
insert into pgrab.calendar (name, closed_weekdays) values ('all', '{}'), ('sunday', '{sun}');

create function pg_temp.fires(p_schedule text, p_timezone text, p_from text, p_until text, p_calendar text,
  p_on_closed text) returns text
language sql as $$
  select string_agg(to_char(f, 'MM-DD HH24:MI'), ', ') from pgrab.fires(
    p_schedule, p_timezone, p_from::timestamptz, p_until::timestamptz, p_calendar, p_on_closed) f
$$;

-- the days
select is(pgrab_internal.day_open('office', '2026-12-18'), true, 'a Friday is open');
select is(pgrab_internal.day_open('office', '2026-12-26'), false, 'a Saturday is closed');
select is(pgrab_internal.day_open('office', '2026-12-19'), true, 'one that is worked is open');
select is(pgrab_internal.day_open('office', '2026-12-25'), false, 'a holiday is closed');
select is(pgrab_internal.day_open('gone', '2026-12-26'), true, 'a calendar that is gone closes none');
select is(pgrab_internal.open_day('office', '2026-12-25', 1), '2026-12-29'::date, 'the next open day');
select is(pgrab_internal.open_day('office', '2026-12-28', -1), '2026-12-24'::date, 'the previous one');
select is(pgrab_internal.open_day('office', '2026-12-24', 1), '2026-12-24'::date, 'an open day is its own');
select is(pgrab_internal.closed_why('office', '2026-12-25'),
  'calendar office is closed on Fri 2026-12-25: Christmas Day', 'why a day is closed');

-- skip, next, previous
select is(pg_temp.fires('0 9 * * *', 'UTC', '2026-12-18', '2026-12-31', 'office', 'skip'),
  '12-18 09:00, 12-19 09:00, 12-21 09:00, 12-22 09:00, 12-23 09:00, 12-24 09:00, 12-29 09:00, 12-30 09:00',
  'skip');
select is(pg_temp.fires('0 9 25-27 * *', 'UTC', '2026-12-18', '2027-01-05', 'office', 'next'), '12-29 09:00',
  'next: fires that fall on one moment are one');
select is(pg_temp.fires('0 9 25 * *', 'UTC', '2026-12-01', '2027-01-05', 'office', 'previous'), '12-24 09:00',
  'previous');
select is(pg_temp.fires('0 9 25,28 * *', 'UTC', '2026-12-24 09:00', '2027-01-05', 'office', 'previous'), null,
  'previous: from is excluded for the moved fire, too');
select is(pg_temp.fires('0 9 L * *', 'Europe/Berlin', '2026-01-01', '2026-06-30', 'office', 'previous'),
  '01-30 08:00, 02-27 08:00, 03-31 07:00, 04-30 07:00, 05-29 07:00', 'ends of months that are weekdays');
select is(pg_temp.fires('30 8 25 * *', 'UTC', '2026-12-25 12:00', '2026-12-31', 'office', 'next'),
  '12-29 08:30', 'next: a fire before the moment comes after it');
select is(pg_temp.fires('0 */8 * * *', 'UTC', '2026-12-24 12:00', '2026-12-29 23:00', 'office', 'next'),
  '12-24 16:00, 12-29 00:00, 12-29 08:00, 12-29 16:00', 'every fire of a closed stretch');
select is(pg_temp.fires('0 9 * * *', 'UTC', '2026-12-18', '2026-12-20', null, 'next'),
  '12-18 09:00, 12-19 09:00', 'no calendar');

-- clock changes: 2026-03-29 02:00 to 03:00 and 2026-10-25 03:00 to 02:00, both Sundays
select is(pg_temp.fires('30 2 * * *', 'Europe/Berlin', '2026-03-27 12:00', '2026-03-31', 'sunday', 'next'),
  '03-28 01:30, 03-30 00:30, 03-30 01:00',
  'a skipped time of the closed Sunday is at 03:00, and so on Monday');
insert into pgrab.calendar (name, closed_weekdays) values ('saturday', '{sat}');
select is(pg_temp.fires('30 2 * * SAT', 'Europe/Berlin', '2026-03-27 12:00', '2026-03-31', 'saturday',
    'next'),
  '03-29 01:00', 'to a time that the clock skips: right after the gap');
select is(pg_temp.fires('30 2 * * SAT', 'Europe/Berlin', '2026-10-23 12:00', '2026-10-28', 'saturday',
  'next'), '10-25 00:30', 'to a time that it repeats: the first time');
select is(pg_temp.fires('30 * * * *', 'Europe/Berlin', '2026-10-24 23:40', '2026-10-25 02:40', 'saturday',
  'skip'), '10-25 00:30, 10-25 01:30, 10-25 02:30', 'elapsed time on an open day is as without a calendar');

-- @every
select is(pg_temp.fires('@every 12h', 'UTC', '2026-12-24 06:00', '2026-12-29 20:00', 'office', 'skip'),
  '12-24 18:00, 12-29 06:00, 12-29 18:00', '@every keeps its distance');
select is(pg_temp.fires('@every 7h', 'UTC', '2026-12-24 20:00', '2026-12-29 12:00', 'office', 'next'),
  '12-29 05:00, 12-29 12:00', 'and is never moved');

-- what there is not
select is(pgrab.next_fire('0 9 * * SUN', 'UTC', '2026-12-01', 'sunday'), null, 'no fire on an open day');
select throws_ok($$select pgrab.next_fire('0 9 * * *', 'UTC', now(), 'x')$$, '22023',
  'there is no calendar ''x''');
select throws_ok($$select pgrab.next_fire('0 9 * * *', 'UTC', now(), 'all', 'later')$$, '22023',
  'on_closed cannot be ''later''');

-- many at once, and the last ones
select results_eq($$select ord, fire from pgrab_internal.next_fires('{0 9 * * *,0 9 * * *,0 9 25 * *}',
    '{UTC,UTC,UTC}', '{2026-12-24 12:00Z,2026-12-24 12:00Z,2026-12-01Z}', '{null,office,office}',
    '{skip,skip,previous}') order by ord$$,
  $$values (1, '2026-12-25 09:00Z'::timestamptz), (2, '2026-12-29 09:00Z'), (3, '2026-12-24 09:00Z')$$,
  'next_fires');
select is(pgrab_internal.nth_last_fire_on('0 9 * * *', 'UTC', '2026-12-01', '2026-12-29 08:00', 2, 'office',
  'skip'), '2026-12-23 09:00Z'::timestamptz, 'the last but one');
select is(pgrab_internal.nth_last_fire_on('@every 12h', 'UTC', '2026-12-24 06:00', '2026-12-29 20:00', 3,
  'office', 'skip'), '2026-12-24 18:00Z'::timestamptz, 'of @every, too');
select is(pgrab_internal.nth_last_fire_on('0 9 * * *', 'UTC', '2026-12-28', '2026-12-29 08:00', 1, 'office',
  'skip'), null, 'there is none');

-- what the history says
select results_eq($$select to_char(fire, 'MM-DD HH24:MI'), why from pgrab_internal.fires_closed(
    '0 9 * * *', 'UTC', '2026-12-24 09:00', '2026-12-29 09:00', 'office', 'skip')$$,
  $$values ('12-25 09:00', 'calendar office is closed on Fri 2026-12-25: Christmas Day'),
    ('12-26 09:00', 'calendar office is closed on Sat 2026-12-26'),
    ('12-27 09:00', 'calendar office is closed on Sun 2026-12-27'),
    ('12-28 09:00', 'calendar office is closed on Mon 2026-12-28')$$, 'skipped, with the note of the day');
select results_eq($$select to_char(fire, 'MM-DD HH24:MI'), why from pgrab_internal.fires_closed(
    '0 9 27-29 * *', 'UTC', '2026-11-30', '2026-12-29 09:00', 'office', 'next')$$,
  $$values ('12-27 09:00', 'calendar office is closed on Sun 2026-12-27; it falls together with the fire of '
      '2026-12-29 09:00:00+00'),
    ('12-28 09:00', 'calendar office is closed on Mon 2026-12-28; it falls together with the fire of '
      '2026-12-29 09:00:00+00')$$, 'two fires that have become one');
select results_eq($$select to_char(fire, 'MM-DD HH24:MI') from pgrab_internal.fires_closed(
    '0 9 27-28 * *', 'UTC', '2026-11-30', '2026-12-29 09:00', 'office', 'next')$$,
  $$values ('12-28 09:00')$$, 'one of those that move is the fire itself');
select is((select count(*) || ' ' || max(why) filter (where why like '%nor%')
  from pgrab_internal.fires_closed(
    '* * * * *', 'UTC', '2026-12-24 23:59', '2026-12-29 00:00', 'office', 'skip')),
  '100 calendar office is closed on Fri 2026-12-25: Christmas Day; nor does any other fire before '
  '2026-12-29 00:00:00+00', 'the first hundred have a row each');

-- lazy: 'infinity' is the year 10000, which takes minutes
set local statement_timeout = '20 s';
select is((select string_agg(to_char(f.f, 'MM-DD'), ' ') from (
    select f from pgrab.fires('0 9 * * *', 'UTC', '2026-12-24 12:00Z', 'infinity', 'office') f limit 2) f),
  '12-29 12-30', 'LIMIT ends it, even without an end');
select is((select string_agg(c.name || to_char(f.f, ' MM-DD'), ', ' order by c.name, f.f)
    from pgrab.calendar c
    cross join lateral (
      select f from pgrab.fires('0 9 * * *', 'UTC', '2026-12-24 12:00Z', 'infinity', c.name, 'next') f
      limit 2) f
    where c.name <> 'saturday'),
  'all 12-25, all 12-26, office 12-29, office 12-30, sunday 12-25, sunday 12-26',
  'for each row of a join, too');
set local statement_timeout = 0;
select * from finish();
rollback;
