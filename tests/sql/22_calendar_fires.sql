-- All fires (migrations/api/22_calendar_fires.sql). Every expected instant was worked out by hand, in UTC.
begin;
select plan(12);

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

select performs_ok($$
  select pgrab.next_fire((array['*/5 * * * *', '30 2 * * *', '0 9 * * MON-FRI', '0 0 1 * *'])[1 + g % 4],
    'Europe/Berlin', pg_catalog.to_timestamp(1.7e9 + 97 * g))
    from pg_catalog.generate_series(1, 10000) as g$$, 2000,
      'ten thousand fires in two seconds, even on a slow machine');

select * from finish();
rollback;
