-- What goes wrong: tasks that fail, and tasks of which a success is missing.
begin;
\ir alert.inc
select plan(20);
set local timezone = 'UTC';

create function pg_temp.failing() returns text language sql as $$
  select string_agg((f.name, f.status, f.failures, f.outcome, f.error)::text, ' ' order by f.id)
  from pgrab.failing f
$$;

-- --------------------------------------------------------------------------------------------------- failing
insert into pgrab.task (id, key, kind, schedule, max_attempts) overriding system value values
  (1, 'nightly', 'noop', '@every 1h', 2);
insert into pgrab.task (id, name, kind, max_attempts) overriding system value values
  (2, 'once', 'noop', 1), (3, 'fine', 'noop', 1);
select is_empty('select * from pgrab.failing', 'nothing fails');
select pg_temp.ends(1, 'failed');
select is_empty('select * from pgrab.failing', 'a try that will be repeated is no failure yet');
select pg_temp.ends(1, 'failed', 'second');
select is(pg_temp.failing(), '(nightly,scheduled,1,failed,second)',
  'a schedule whose last fire failed is failing');
select is((select f.since = date_trunc('second', t.last_finished_at)
    from pgrab.failing f join pgrab.task t on t.id = f.id), true, 'since when');
select pg_temp.ends(1, 'failed'), pg_temp.ends(1, 'timed_out', 'too slow');
select is(pg_temp.failing(), '(nightly,scheduled,2,timed_out,"too slow")', 'how often in a row');
select pg_temp.ends(2, 'failed'), pg_temp.ends(3, 'succeeded');
select is(pg_temp.failing(), '(nightly,scheduled,2,timed_out,"too slow") (once,parked,1,failed,boom)',
  'what is parked fails');
select is((select count(*) from pgrab.incident), 1::bigint,
  'and costs no incident when nobody is told of it');
select is((select (o.failing, o.parked, o.overdue)::text from pgrab.overview o), '(2,1,0)',
  'overview counts them');
select pg_temp.ends(1, 'succeeded');
select is(pg_temp.failing(), '(once,parked,1,failed,boom)', 'a success ends it');
select is_empty('select * from pgrab.incident', 'nothing is kept of it');
delete from pgrab.task where id = 2;
select pg_temp.ends(1, 'cancelled');
select is_empty('select * from pgrab.failing', 'cancelled is no failure');
select is(pg_temp.told(), null, 'nobody was told');

-- --------------------------------------------------------------------------------------------------- overdue
insert into pgrab.task (id, key, kind, schedule, expect_within, created_at) overriding system value values
  (10, 'backup', 'noop', '@every 1h', '1 day', now()), (11, 'young', 'noop', '@every 1h', '1 day', now());
select is_empty('select * from pgrab.overdue', 'nothing is overdue');
update pgrab.task set created_at = now() - interval '25 hours' where id = 10;
select is((select (o.name, o.last_success, date_trunc('hour', o.overdue_by), o.why like 'due in%')::text
    from pgrab.overdue o), '(backup,,01:00:00,t)', 'a task that has never succeeded');
select pg_temp.ends(10, 'succeeded');
select is_empty('select * from pgrab.overdue', 'a success ends it');
update pgrab.task set succeeded_at = now() - interval '26 hours' where id = 10;
select is((select date_trunc('hour', o.overdue_by) from pgrab.overdue o), '02:00:00', 'an old success');
update pgrab.task set max_attempts = 1 where id = 10;
select pg_temp.ends(10, 'failed');
select is((select o.last_success from pgrab.overdue o), date_trunc('second', now() - interval '26 hours'),
  'a failure since is none');
select pg_temp.ends(10, 'failed');
select is((select o.last_success from pgrab.overdue o), date_trunc('second', now() - interval '26 hours'),
  'however often');
update pgrab.task set status = 'running', node_id = 1, incarnation = 11,
  started_at = now() - interval '3 hours'
where id = 10;
select matches((select o.why from pgrab.overdue o), '^runs for 03:00:\d\d$', 'one that runs too long');
update pgrab.task set status = 'scheduled', node_id = null, incarnation = null where id = 10;

-- What was inserted late is not late in line from its time on, but from the INSERT.
insert into pgrab.limit (key, max_running) values ('tape', 0);
insert into pgrab.task (id, kind, limit_key, run_at) overriding system value
values (77, 'noop', 'tape', '2001-01-01Z');
update pgrab.task set due_at = null, line = 'tape', version = version + 1 where id = 77;
select is((select (o.late, o.oldest_late)::text from pgrab_internal.counts_due() o), '(0,)', 'not late yet');

select * from finish();
rollback;
