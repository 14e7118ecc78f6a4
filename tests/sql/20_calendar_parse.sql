-- Reading schedules and time zones (migrations/api/20_calendar_parse.sql).
begin;
select plan(368);

-- Everything that is refused, by schedule_fault (message and hint) and by schedule_check (the same, raised).
create temporary table calendar_refusal (
  id integer generated always as identity, schedule text, timezone text default 'UTC', fault text, hint text
) on commit drop;

insert into calendar_refusal (schedule, fault, hint) values
  ('', 'it is empty', 'Write null for a task that runs once'),
  ('   ', 'it is empty', 'Write null for a task that runs once'),
  ('hello', 'it has 1 field', 'Write five fields'),
  ('* * * *', 'it has 4 fields', 'Write five fields'),
  ('* * * * * * *', 'it has 7 fields', 'set ends_at'),
  ('0 0 0 1 1 ? 2030', 'it has 7 fields', 'The year field of Quartz'),
  ('* * * * * * * *', 'it has 8 fields', 'Write five fields'),
  ('60 * * * *', 'minute 60 is out of range 0-59', 'Minutes: '),
  ('60 * * * * *', 'second 60 is out of range 0-59', 'Seconds: '),
  ('* 24 * * *', 'hour 24 is out of range 0-23', 'Hours: '),
  ('* * 0 * *', 'day-of-month 0 is out of range 1-31', 'Days of the month: '),
  ('* * 32 * *', 'day-of-month 32 is out of range 1-31', 'LW \(last weekday\)'),
  ('* * * 0 *', 'month 0 is out of range 1-12', 'JAN-DEC'),
  ('* * * 13 *', 'month 13 is out of range 1-12', 'Months: '),
  ('* * * * 8', 'day-of-week 8 is out of range 0-7', 'SUN-SAT'),
  ('99999999999 * * * *', 'minute 99999999999 is out of range 0-59', 'Minutes: '),
  ('0-60 * * * *', 'minute 60 is out of range 0-59', 'Minutes: '),
  ('5,99 * * * *', 'minute 99 is out of range 0-59', 'Minutes: '),
  ('99/5 * * * *', 'minute 99 is out of range 0-59', 'Minutes: '),
  ('* * 0W * *', 'day-of-month 0 is out of range 1-31', 'Days of the month: '),
  ('* * 32W * *', 'day-of-month 32 is out of range 1-31', 'Days of the month: '),
  ('* * * * 8L', 'day-of-week 8 is out of range 0-7', '5L \(last Friday\)'),
  ('* * * * 9#1', 'day-of-week 9 is out of range 0-7', '5#3 \(third Friday\)'),
  ('* * * * 5#0', 'day-of-week "5#0" cannot be read', '5#3'),
  ('* * * * 5#6', 'day-of-week "5#6" cannot be read', '5#3'),
  ('* * * * L', 'day-of-week "L" cannot be read', '5L'),
  ('* * * * 5W', 'day-of-week "5W" cannot be read', 'Days of the week: '),
  ('* * L-3 * *', 'day-of-month "L-3" cannot be read', 'L \(last day\)'),
  ('* * W * *', 'day-of-month "W" cannot be read', '15W'),
  ('* * 1-5W * *', 'day-of-month "1-5W" cannot be read', '15W'),
  ('L * * * *', 'minute "L" cannot be read', 'Minutes: '),
  ('* 5L * * *', 'hour "5L" cannot be read', 'Hours: '),
  ('* * * L *', 'month "L" cannot be read', 'Months: '),
  ('* * * * 5-1', 'day-of-week range 5-1 goes backwards', 'write 5-6,0-1'),
  ('* * * * FRI-MON', 'day-of-week range FRI-MON goes backwards', 'write FRI-6,0-MON'),
  ('50-10 * * * *', 'minute range 50-10 goes backwards', 'write 50-59,0-10'),
  ('* 22-6 * * *', 'hour range 22-6 goes backwards', 'write 22-23,0-6'),
  ('* * * NOV-FEB *', 'month range NOV-FEB goes backwards', 'write NOV-12,1-FEB'),
  ('*/0 * * * *', 'minute step 0 is out of range 1-60', 'use @every'),
  ('*/61 * * * *', 'minute step 61 is out of range 1-60', 'starts again in the next hour'),
  ('*/90 * * * *', 'minute step 90 is out of range 1-60', '@every 90m'),
  ('* */25 * * *', 'hour step 25 is out of range 1-24', 'in the next day'),
  ('5-10/0 * * * *', 'minute step 0 is out of range 1-60', 'use @every'),
  ('*/99999999999 * * * *', 'minute step 99999999999 is out of range 1-60', 'use @every'),
  ('* * * * */8', 'day-of-week step 8 is out of range 1-7', 'in the next week'),
  ('*/-5 * * * *', 'minute "*/-5" cannot be read', 'Minutes: '),
  ('-5 * * * *', 'minute "-5" cannot be read', 'Minutes: '),
  ('+5 * * * *', 'minute "+5" cannot be read', 'Minutes: '),
  ('5- * * * *', 'minute "5-" cannot be read', 'Minutes: '),
  ('1-2-3 * * * *', 'minute "1-2-3" cannot be read', 'Minutes: '),
  ('*/ * * * *', 'minute "*/" cannot be read', 'Minutes: '),
  ('/5 * * * *', 'minute "/5" cannot be read', 'Minutes: '),
  ('*/5/5 * * * *', 'minute "*/5/5" cannot be read', 'Minutes: '),
  ('*-5 * * * *', 'minute "*-5" cannot be read', 'Minutes: '),
  ('** * * * *', 'minute "**" cannot be read', 'Minutes: '),
  ('1.5 * * * *', 'minute "1.5" cannot be read', 'Minutes: '),
  (', * * * *', 'minute is empty somewhere between its commas', 'Minutes: '),
  ('1,,2 * * * *', 'minute is empty somewhere between its commas', 'Minutes: '),
  ('1,2, * * * *', 'minute is empty somewhere between its commas', 'Minutes: '),
  ('* * * FOO *', 'month "FOO" is not a number or a name', 'JAN-DEC'),
  ('* * * JANUARY *', 'month "JANUARY" cannot be read', 'JAN-DEC'),
  ('* * * * MO', 'day-of-week "MO" cannot be read', 'SUN-SAT'),
  ('* * * MON *', 'month "MON" is not a number or a name', 'JAN-DEC'),
  ('MON * * * *', 'minute "MON" is not a number or a name', 'Minutes: '),
  ('* * * * JAN', 'day-of-week "JAN" is not a number or a name', 'SUN-SAT'),
  ('１ * * * *', 'minute "１" cannot be read', 'Minutes: '),
  ('0 0 30 2 *', 'it can never fire', 'check the day fields against the month field'),
  ('0 0 31 2,4,6,9,11 *', 'it can never fire', 'check the day fields'),
  ('0 0 31W 2 *', 'it can never fire', 'check the day fields'),
  ('0 0 30,31 FEB ?', 'it can never fire', 'check the day fields'),
  ('0 0 */31 * MON#5,*/7', null, null),
  ('0 0 */31 4 SUN#5', null, null),
  ('0 0 30 2 */2', 'it can never fire', 'check the day fields'),
  ('0 0 LW * */7', 'it can never fire', 'check the day fields'),
  ('@reboot', 'unknown word', '@hourly'),
  ('@minutely', 'unknown word', '@every 90s'),
  ('@', 'unknown word', '@daily'),
  ('@daily x', 'unknown word', '@daily'),
  ('@every', 'its interval cannot be read', '@every 90s'),
  ('@every 90', 'its interval cannot be read', 'units w, d, h, m, s'),
  ('@every s', 'its interval cannot be read', '@every 90s'),
  ('@every -5s', 'its interval cannot be read', '@every 90s'),
  ('@every 1.5h', 'its interval cannot be read', 'whole numbers'),
  ('@every 500ms', 'its interval cannot be read', 'whole numbers'),
  ('@every 1 month', 'its interval cannot be read', 'A month has no fixed length'),
  ('@every 0s', 'its interval is out of range', 'at least one second'),
  ('@after 0m', 'its interval is out of range', 'at least one second'),
  ('@every 36526d', 'its interval is out of range', '36525d'),
  ('@every 99999999999999999999999999s', 'its interval is out of range', 'at most 100 years'),
  ('90s', 'it is not a cron expression', '@every 90s'),
  ('30 seconds', 'it is not a cron expression', '@every 90s'),
  ('every 5 minutes', 'it is not a cron expression', '@every 90s');
delete from calendar_refusal where fault is null;
update calendar_refusal set fault = 'invalid schedule "' || schedule || '": ' || fault;
insert into calendar_refusal (schedule, fault, hint) values
  (pg_catalog.repeat('1,', 5000) || '1 * * * *', 'invalid schedule "' || pg_catalog.repeat('1,', 40) ||
    '...": it has 10009 characters', 'at most 1000'),
  (e'* *\n* * * *', 'invalid schedule "* *?* * * *": hour "*?*" cannot be read', 'Hours: ');
insert into calendar_refusal (schedule, timezone, fault, hint) values
  ('* * * * *', 'Berlin', 'invalid timezone "Berlin": not the name of a time zone',
    'Did you mean "Europe/Berlin"\?'),
  ('* * * * *', 'Europe/Berln', 'invalid timezone "Europe/Berln": there is no such time zone',
    'pg_timezone_names'),
  ('* * * * *', 'Europe/', 'invalid timezone "Europe/": not the name of a time zone', 'IANA'),
  ('* * * * *', 'Asia/Berlin', 'invalid timezone "Asia/Berlin": there is no such time zone',
    'Did you mean "Europe/Berlin"\?'),
  ('* * * * *', 'CEST', 'invalid timezone "CEST": not the name of a time zone', 'IANA'),
  ('* * * * *', 'CET', 'invalid timezone "CET": not the name of a time zone', 'without summer time'),
  ('* * * * *', 'UTC+2', 'invalid timezone "UTC+2": not the name of a time zone', 'is reversed'),
  ('* * * * *', '+02:00', 'invalid timezone "+02:00": not the name of a time zone', 'is reversed'),
  ('* * * * *', 'Europe/Berlin2', 'invalid timezone "Europe/Berlin2": not the name of a time zone', 'IANA'),
  ('* * * * *', 'posix/Europe/Berlin', 'invalid timezone "posix/Europe/Berlin": not the name of a time zone',
    'Did you mean "Europe/Berlin"\?'),
  ('* * * * *', 'right/UTC', 'invalid timezone "right/UTC": not the name of a time zone', 'IANA'),
  ('* * * * *', 'localtime', 'invalid timezone "localtime": not the name of a time zone', 'IANA'),
  ('* * * * *', 'default', 'invalid timezone "default": not the name of a time zone', 'IANA'),
  ('* * * * *', '', 'invalid timezone "": not the name of a time zone', 'IANA'),
  ('* * * * *', ' UTC', 'invalid timezone " UTC": not the name of a time zone', 'IANA'),
  ('* * * * *', '../../etc/passwd', 'invalid timezone "../../etc/passwd": not the name of a time zone',
    'IANA'),
  ('* * * * *', '/etc/passwd', 'invalid timezone "/etc/passwd": not the name of a time zone', 'IANA'),
  ('* * * * *', 'Europe/../../etc/passwd',
    'invalid timezone "Europe/../../etc/passwd": not the name of a time zone', 'IANA'),
  ('* * * * *', 'Etc/GMT+99', 'invalid timezone "Etc/GMT+99": not the name of a time zone', 'IANA'),
  ('* * * * *', pg_catalog.repeat('x', 10000), 'invalid timezone "' || pg_catalog.repeat('x', 80) ||
    '...": not the name of a time zone', 'IANA'),
  ('* * * * *', null, 'invalid timezone: null', 'IANA'),
  (null, 'Nowhere', 'invalid timezone "Nowhere": not the name of a time zone', 'IANA'),
  ('@every 5m', 'Nowhere', 'invalid timezone "Nowhere": not the name of a time zone', 'IANA');

select is((pgrab_internal.schedule_fault(r.schedule, r.timezone)).fault, r.fault,
  'refused: ' || pg_catalog.left(r.fault, 100))
from calendar_refusal as r order by r.id;
select matches((pgrab_internal.schedule_fault(r.schedule, r.timezone)).hint, r.hint,
  'hint: ' || pg_catalog.left(r.fault, 100))
from calendar_refusal as r order by r.id;
select throws_ok(pg_catalog.format('select pgrab_internal.schedule_check(%L, %L)', r.schedule, r.timezone),
  '22023', r.fault, 'raised: ' || pg_catalog.left(r.fault, 100))
  from calendar_refusal as r order by r.id;

-- next_fire refuses the same, without the check before it
select throws_ok($$select pgrab.next_fire('0 0 30 2 *')$$, '22023',
  'invalid schedule "0 0 30 2 *": it can never fire');
select throws_ok($$select pgrab.next_fire('61 * * * *')$$, '22023',
  'invalid schedule "61 * * * *": minute 61 is out of range 0-59');
select throws_ok($$select pgrab.next_fire('* * * * *', 'UTC+2')$$, '22023',
  'invalid timezone "UTC+2": not the name of a time zone');
select throws_ok($$select pgrab.next_fire('* * * * *', 'Europe/Berln')$$, '22023',
  'time zone "Europe/Berln" not recognized');

-- what is taken
select lives_ok(pg_catalog.format('select pgrab_internal.schedule_check(%L, %L)', a.schedule, a.timezone),
  'taken: ' || coalesce(a.schedule, 'null') || ' ' || a.timezone)
  from (values ('* * * * *', 'UTC'), (null, 'Europe/Berlin'), ('@every 90s', 'Asia/Tokyo'), ('@after 1h',
    'utc'), ('0 0 29 2 *', 'America/Argentina/Buenos_Aires'),
               ('0 0 * 2 MON#5', 'America/Port-au-Prince'), ('0 0 */31 4,1 *', 'Etc/GMT-14'), ('0 0 31 2 1',
                 'EST5EDT'), ('0 0 LW 2 ?', 'GMT'),
               ('0 0 29W 2 *', 'US/Eastern'), ('0 0 0 L DEC ?', 'Etc/UTC'), ('*/60 * * * *',
                 'Antarctica/DumontDUrville')) as a(schedule, timezone);

-- schedule_kind
select is(pgrab_internal.schedule_kind(k.schedule), k.kind, 'kind of ' || coalesce(k.schedule, 'null'))
  from (values ('* * * * *', 'cron'), ('@daily', 'cron'), ('@every 90s', 'every'), (' @EVERY 1h', 'every'),
    ('@after 5m', 'after'), (null, null)) as k(schedule, kind);

-- promises to the planner and to readers
select is_empty($$
  select p.proname from pg_catalog.pg_proc as p
   where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_tool'::regnamespace) and p.proname ~
     '^(cron_|zone_|schedule_|next_fire|fires$|fire_walk|lowest_bit)'
     and (p.provolatile = 'v' or p.proconfig is not null or pg_catalog.obj_description(p.oid, 'pg_proc') is
       null
          or (p.proparallel <> 's' and p.proname not in ('schedule_fault', 'schedule_check')))$$,
  'every function has a comment, no SET clause, and is not volatile');

select * from finish();
rollback;
