-- Days of which the default partition has more than can be moved while everybody waits.
set client_min_messages = warning;
begin;
select plan(7);
insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner)
select i, 1, (pgrab_internal.today() - d.day + time '12:00') at time zone 'UTC', 'epoch', 1, 'succeeded',
  'noop', current_user
from (values (40, 100001), (30, 3)) d(day, n), generate_series(1, d.n) i;
select set_eq('select parent, day from pgrab_internal.rest_days()',
  $$select 'run' as parent, pgrab_internal.today() - n as day from unnest(array[30, 40]) n$$,
  'the days of the default partition');
select is((select count(*) from pgrab_internal.days_make(0) d
    where d like '%' || to_char(pgrab_internal.today() - 30, 'YYYYMMDD')), 1::bigint, 'a few rows are moved');
select is((select count(*) from pgrab.run_rest), 100001::bigint, 'many stay where they are');
select is((select count(*) from pgrab.run), 100004::bigint, 'and are history like all others');
select is((select count(*) from pgrab_internal.days_make(0)), 0::bigint, 'their day is not tried in vain');

insert into pgrab.task (id, kind, schedule, keep) overriding system value
values (7, 'noop', '@daily', '90 days');
select pgrab_internal.rest_leave('7 days', 60000);
select is((select count(*) from pgrab.run_rest), 40001::bigint,
  'when their time is over they go, so many at once');
select pgrab_internal.rest_leave('7 days', 60000);
select is((select array_agg(r.task_id) from pgrab.run_rest r), '{7}',
  'except what a task wants kept for longer');
select * from finish();
rollback;
