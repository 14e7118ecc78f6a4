-- All fires (migrations/api/22_calendar_fires.sql). Every expected instant was worked out by hand, in UTC.
begin;
select plan(19);

-- fires: from is excluded, until included, in order, lazy
select results_eq($$select pgrab.fires('0 0 * * *', 'UTC', '2026-01-01Z', '2026-01-03Z')$$,
  $$values ('2026-01-02Z'::timestamptz), ('2026-01-03Z')$$, 'from is excluded, until is included');
select is_empty($$select pgrab.fires('0 0 * * *', 'UTC', '2026-01-01Z', '2026-01-01 23:59:59Z')$$,
  'no fire in between');
select is_empty($$select pgrab.fires('0 0 * * *', 'UTC', '2026-01-03Z', '2026-01-01Z')$$,
  'until before from');
select is_empty($$select pgrab.fires(null, 'UTC', '2026-01-03Z', '2026-01-01Z')$$, 'fires of no schedule');
select results_eq($$select pgrab.fires('@every 90s', 'UTC', '2026-01-01Z', '2026-01-01 00:03Z')$$,
  $$values ('2026-01-01 00:01:30Z'::timestamptz), ('2026-01-01 00:03Z')$$, 'fires of an interval');
select is((select pg_catalog.count(*) from pgrab.fires('*/15 * * * *', 'Europe/Berlin', '2026-10-24 22:00Z',
  '2026-10-25 23:00Z')), 100::bigint, '25 hours of quarters in autumn');
select is((select pg_catalog.count(*) from pgrab.fires('*/15 * * * *', 'Europe/Berlin', '2026-03-28 23:00Z',
  '2026-03-29 22:00Z')), 92::bigint, '23 hours of quarters in spring');
select is((select pg_catalog.count(*) from pgrab.fires('30 2 * * *', 'Europe/Berlin', '2026-01-01Z',
  '2027-01-01Z')), 365::bigint, 'a fixed time fires every day of the year');
select throws_ok($$select * from pgrab.fires('x', 'UTC', '2026-01-01Z', '2027-01-01Z')$$, '22023',
  'invalid schedule "x": it has 1 field');

-- next_fires
select results_eq(
  $$select ord, fire from pgrab_internal.next_fires('{0 0 * * *,null,@every 90s,0 0 * * *}',
    '{UTC,UTC,UTC,UTC}', '{2026-01-01Z,2026-01-01Z,2026-01-01Z,2026-01-01Z}') order by ord$$,
  $$values (1, '2026-01-02Z'::timestamptz), (2, null), (3, '2026-01-01 00:01:30Z'), (4, '2026-01-02Z')$$,
  'next_fires: equal ones, and null for none');
select is_empty($$select * from pgrab_internal.next_fires('{}', '{}', '{}')$$, 'next_fires of nothing');

-- nth_last_fire: counts by the hour, so it is compared with walking, around every kind of clock change
select is(pgrab_internal.nth_last_fire('*/10 * * * *', 'UTC', '2026-01-01Z', '2026-01-02Z', 144),
  '2026-01-01 00:10Z'::timestamptz, 'the first is the last of all');
select is(pgrab_internal.nth_last_fire('*/10 * * * *', 'UTC', '2026-01-01Z', '2026-01-02Z', 145), null,
  'there are fewer');
select is((
    select array_agg(pgrab_internal.nth_last_fire('@every 90s', 'UTC', '2026-01-01Z', '2026-01-01 00:10Z', n))
    from unnest('{6,7}'::int[]) n), '{2026-01-01 00:01:30Z,null}'::timestamptz[], 'the same of an interval');
select is_empty($$
  select z, r, t, h, n
  from unnest('{UTC,Europe/Berlin,Australia/Lord_Howe,America/St_Johns,Pacific/Apia,Antarctica/Casey}'
      ::text[]) z,
    unnest(array['* * * * *', '*/7 * * * *', '13 2 * * *', '*/10 1-3 * * *', '15,45 */2 * * *',
      '5/20 */3 1-3 * * *', '*/3 0 * * *', '30 2,14 1 * *', '*/2 22-23,0-4 * * *']) r,
    unnest('{2026-03-29 00:41:13Z,2026-10-25 00:31Z,2026-04-04 14:01:07Z,2026-10-03 15:00Z,
      2007-03-11 03:00:05Z,2007-11-04 02:00Z,2011-12-30 09:30Z,2010-03-04 14:20Z}'::timestamptz[]) t,
    (values (interval '70 minutes', 3), ('5 hours 10 s', 40), ('3 days', 117)) w(h, n)
    cross join lateral (
      select (array(select f from pgrab.fires(r, z, t, t + h) f order by f desc))[n] as fire) walked
  where pgrab_internal.nth_last_fire(r, z, t, t + h, n) is distinct from walked.fire$$,
  'nth_last_fire finds what walking finds');
select performs_ok($$
  select pgrab_internal.nth_last_fire('* * * * * *', 'Europe/Berlin', '2026-01-01Z', '2027-01-01Z', 100000)
  from generate_series(1, 30)$$, 2000, 'a year of seconds thirty times in two seconds');

select performs_ok($$
  select pgrab.next_fire((array['*/5 * * * *', '30 2 * * *', '0 9 * * MON-FRI', '0 0 1 * *'])[1 + g % 4],
    'Europe/Berlin', pg_catalog.to_timestamp(1.7e9 + 97 * g))
    from pg_catalog.generate_series(1, 10000) as g$$, 2000,
      'ten thousand fires in two seconds, even on a slow machine');

-- On a Sunday, with Saturday and Sunday closed.
insert into pgrab.calendar (name) values ('office');
select is(pgrab_internal.nth_last_fire_on('* * * * * *', 'Europe/Berlin', '2026-03-02',
  '2026-03-08 22:59Z', 3, 'office', 'skip'), '2026-03-06 22:59:57Z', 'the last but two on the Friday before');
select performs_ok($$
  select pgrab_internal.nth_last_fire_on('* * * * * *', 'Europe/Berlin', '2026-03-02', '2026-03-08 22:59Z', 1,
    'office', c) from unnest('{skip,next,previous}'::text[]) c$$, 1000, 'however many fires there are');

select * from finish();
rollback;
