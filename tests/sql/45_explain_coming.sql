-- What a blackout or a calendar makes of the next fires: pgrab_tool.coming().
begin;
select plan(7);
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

select * from finish();
rollback;
