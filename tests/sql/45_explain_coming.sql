-- What a blackout or a calendar makes of the next fires: pgrab_tool.coming().
begin;
select plan(14);
set local timezone = 'UTC';

create function pg_temp.coming(p_key text) returns text language sql as $$
  select string_agg(to_char(c.at, 'Dy') || case when c.becomes is null then ''
    else ' ' || regexp_replace(c.becomes, '\d{4}-\d\d-\d\d', 'DAY', 'g') end, '; ' order by c.at)
  from (select * from pgrab_tool.coming(pgrab_tool.id_of(p_key), 3)) c
$$;
insert into pgrab.task (key, kind, schedule) values ('plain', 'noop', '0 3 * * MON-WED');
select is((select count(*) || ' ' || count(c.becomes) from pgrab_tool.coming(pgrab_tool.id_of('plain'), 3) c),
  '3 0', 'nothing becomes of a plain fire');
insert into pgrab.calendar (name, closed_weekdays) values ('office', '{tue}');
insert into pgrab.task (key, kind, schedule, calendar, on_closed, starts_at) values
  ('skips', 'noop', '0 3 * * MON-WED', 'office', 'skip', '2100-01-03Z'),
  ('moves', 'noop', '0 3 * * TUE', 'office', 'next', '2100-01-03Z'),
  ('falls', 'noop', '0 3 * * *', 'office', 'previous', '2100-01-03Z');
select is(pg_temp.coming('skips'), 'Mon; Tue not run: calendar office is closed on Tue DAY; Wed; Mon',
  'a closed day');
select is(pg_temp.coming('moves'), 'Wed moved to the next open day of calendar office; '
  'Wed moved to the next open day of calendar office; Wed moved to the next open day of calendar office',
  'moved from a closed day');
select matches(pg_temp.coming('falls'), 'Tue not run: .*; it falls together with the fire of DAY',
  'it has a fire already');
insert into pgrab.task (key, kind, schedule, starts_at, misfire) values
  ('b', 'noop', '0 0 * * *', '2100-01-04Z', 'once'), ('c', 'noop', '0 0 * * *', '2100-01-04Z', 'all');
insert into pgrab.blackout (name, during, note)
values ('move', '[2100-01-04 00:00Z, 2100-01-05 12:00Z)', 'new disks');
select is(pg_temp.coming('b'), 'Mon held until DAY 12:00:00+00: blackout move: new disks; '
  'Tue the run behind blackout move: new disks stands for it; Wed', 'held');
select is(pg_temp.coming('c'), 'Mon held until DAY 12:00:00+00: blackout move: new disks; '
  'Tue held until DAY 12:00:00+00: blackout move: new disks; Wed', 'each of them');
update pgrab.blackout set action = 'skip', note = null;
select is(pg_temp.coming('b'), 'Mon skipped: blackout move; Tue skipped: blackout move; Wed', 'skipped');

-- Of a task that is under way, or late, the fires of @every stay where they are.
delete from pgrab.blackout;
insert into pgrab.task (key, kind, schedule, run_at) values
  ('e', 'noop', '@every 1h', now() - interval '90 min'),
  ('f', 'noop', ' @AFTER 1h', now()), ('s', 'noop', '* * * * * *', now() - interval '30 days');
select results_eq($$select c.at - now() from pgrab_tool.coming(pgrab_tool.id_of('e'), 2) c$$,
  array['30 min'::interval, '90 min'], 'the coming fires of @every');
select results_eq($$select date_trunc('second', f.fire_at - now()) from pgrab.forecast('95 min') f
  where f.name = 'e'$$,
  array['0'::interval, '30 min', '90 min'], 'and its forecast');
select is_empty($$select * from pgrab_tool.coming(pgrab_tool.id_of('f'), 2)$$, '@after depends on the end');
select performs_ok('select * from pgrab.forecast(''1 minute'', 10)', 1000, 'however late it is');

-- Its last fire is tried again: it has none behind that.
insert into pgrab.task (key, kind, schedule, run_at, max_runs) values ('m', 'noop', '@every 1h', now(), 1);
update pgrab.task set fires = 1 where key = 'm';
select is((select count(*) from pgrab.forecast('1 day') f where f.name = 'm'), 1::bigint, 'its last fire');
select lives_ok('select * from pgrab.congestion()', 'congestion');
select is((select count(*) from pgrab.task t cross join lateral pgrab_internal.month_one(
  row(t.*)::pgrab_internal.task, now() + interval '1 day') where t.key = 'm'), 1::bigint, 'in a month');

select * from finish();
rollback;
