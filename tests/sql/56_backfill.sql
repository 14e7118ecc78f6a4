-- Backfills: which fires they have, what their tasks are, and what is refused.
begin;
select plan(34);
set local timezone = 'UTC';
alter table pgrab.task alter id restart with 1000;

create function pg_temp.late(p_id bigint, p_fire timestamptz) returns void language sql as $$
  update pgrab.task set fire_at = p_fire where id = p_id
$$;
-- What a batch has: its members' fires in order.
create function pg_temp.fires(p_batch bigint) returns text language sql as $$
  select string_agg(to_char(t.fire_at, 'MM-DD HH24:MI'), ', ' order by t.fire_at) from pgrab.task t
  where t.batch = p_batch
$$;

insert into pgrab.task (id, key, name, kind, command, args, schedule, priority, timeout, source)
overriding system value
values (1, 'nightly', 'The nightly', 'shell', 'load', '{"env": {"A": "b"}}', '0 3 * * *', -1, '9 min', 'etl'),
  (2, 'mark', null, 'noop', '', '{}', '@every 90m', 0, '1 hour', '');
update pgrab.task set paused = true where id = 1;
create temp table before as select * from pgrab.task where id = 1;

-- ------------------------------------------------------------------------------------------------- dry run
select is((select row(b.*)::text from pgrab.backfill('nightly', '2025-01-01', '2025-02-01',
  dry_run => true) b),
  '(,31,"2025-01-01 03:00:00+00","2025-01-31 03:00:00+00")', 'a dry run says what there would be');
select is((select b.fires from pgrab.backfill(1, '2025-01-01 03:00', '2025-01-02 03:00', dry_run => true) b),
  1::bigint, 'from is in it and until is not, so that one backfill can follow another');
select is((select count(*) from pgrab.task), 2::bigint, 'it inserts nothing');
select is((select count(*) from pgrab.event e where e.what = 'backfill'), 0::bigint, 'and nothing was done');

-- ------------------------------------------------------------------------------------------------- a batch
create temp table made as select * from pgrab.backfill('nightly', '2025-01-01', '2025-01-04');
select is((select pg_temp.fires(m.batch) from made m), '01-01 03:00, 01-02 03:00, 01-03 03:00',
  'a task for each fire, with that fire as its fire_at');
select is((select format('%s %s %s %s %s %s %s', t.kind, t.command, t.args, t.name, t.priority, t.timeout,
    num_nonnulls(t.key, t.schedule)) from pgrab.task t join made m on m.batch = t.batch limit 1),
  'shell load {"env": {"A": "b"}} The nightly -1 00:09:00 0', 'they do what the schedule does, once');
select is((select string_agg(distinct t.source, ',') from pgrab.task t join made m on m.batch = t.batch), '',
  'they are of no source, or an apply with prune would delete them');
select is((select string_agg(to_char(t.fire_at, 'DD'),
  ',' order by t.fire_at) filter (where t.due_at between now()
    and clock_timestamp()) || ' of ' || count(*) filter (where t.status = 'scheduled' and not t.paused)
  from pgrab.task t join made m on m.batch = t.batch), '01 of 3',
  'the first is due since now and the others are in line, though the schedule is paused');
select is((select b.sealed_at is not null from pgrab.batch b join made m on m.batch = b.task_id), true,
  'nothing is added to it');
select is((select l.max_running from pgrab.limit l join pgrab.task t on t.limit_key = l.key join made m
  on m.batch = t.batch limit 1), 1, 'one runs at once');
select is((select t.name from pgrab.task t join made m on m.batch = t.id), 'backfill of The nightly',
  'its name');
select results_eq('select * from pgrab.task where id = 1', 'select * from before',
  'the schedule is as it was');
select is((select format('%s %s', e.task_id, e.detail ->> 'fires')
  from pgrab.event e where e.what = 'backfill'),
  '1 3', 'it is written down');
create temp table two as select * from pgrab.backfill(1, '2025-02-01', '2025-02-03', max_running => 2);
select is((select l.max_running from two m join pgrab.task t on t.batch = m.batch join pgrab.limit l
  on l.key = t.limit_key limit 1), 2, 'or two');
create temp table many as select * from pgrab.backfill(1, '2025-03-01', '2025-03-02', null);
select is((select coalesce(t.limit_key, 'none') from many m join pgrab.task t on t.batch = m.batch), 'none',
  'or as many as there is room for');

-- ------------------------------------------------------------------------------------ beside the schedule
select pg_temp.late(1, '2025-04-10 03:00');
select is((select b.last_fire from pgrab.backfill(1, '2025-04-01', '2025-05-01', dry_run => true) b),
  '2025-04-09 03:00'::timestamptz, 'what the schedule has yet to carry out is left to it');
select is((select b.last_fire from pgrab.backfill(1, '2025-04-01', '2025-05-01', overlap => true,
  dry_run => true) b),
  '2025-04-30 03:00'::timestamptz, 'unless it is asked for');
select throws_like($$select * from pgrab.backfill(1, '2025-04-10', '2025-05-01')$$,
  '%cannot be backfilled: it has no fire from 2025-04-10 00:00:00+00 until 2025-04-10 03:00:00+00',
  'nothing is left');
select is((select b.last_fire < now() from pgrab.backfill(1, '2025-04-01', '2999-01-01', overlap => true,
  dry_run => true) b), true, 'nothing in the future');
update pgrab.task set starts_at = '2025-01-15' where id = 1;
select pg_temp.late(1, '2025-04-10 03:00');
select is((select b.fires from pgrab.backfill(1, '2025-01-01', '2025-02-01', dry_run => true) b), 17::bigint,
  'nor before the schedule begins');

-- ------------------------------------------------------------------------------------------------- @every
select pg_temp.late(2, '2025-06-01 01:00');
select is((select string_agg(to_char(f, 'DD HH24:MI'), ', ') from unnest(pgrab_internal.backfill_fires(
    (select row(t.*)::pgrab_internal.task from pgrab.task t where t.id = 2), '2025-05-31 20:30',
  '2025-06-01 02:30',
    true)) f), '31 20:30, 31 22:00, 31 23:30, 01 01:00', '@every: in step with its planned fire, back');
select is((select string_agg(to_char(f, 'DD HH24:MI'), ', ') from unnest(pgrab_internal.backfill_fires(
    (select row(t.*)::pgrab_internal.task from pgrab.task t where t.id = 2), '2025-06-01 01:01',
  '2025-06-01 05:30',
    true)) f), '01 02:30, 01 04:00', 'and forth');

-- ------------------------------------------------------------------------------------------------ refusals
insert into pgrab.task (id, kind, run_at, schedule, limit_key) overriding system value
select 3, 'noop', '2099-01-01', null, null;
insert into pgrab.limit (key, max_running) values ('db', 3);
insert into pgrab.task (id, kind, schedule, limit_key) overriding system value
values (4, 'noop', '@after 1h', null), (5, 'noop', '@daily', 'db'), (6, 'noop', '@daily', null);
insert into pgrab.task (id, kind, parent_id) overriding system value values (7, 'noop', 6);
select throws_ok($$select * from pgrab.backfill(3, '2025-01-01', '2025-02-01')$$, '22023',
  'task 3 (#3) cannot be backfilled: it has no schedule', 'no schedule');
select throws_like($$select * from pgrab.backfill(4, '2025-01-01', '2025-02-01')$$,
  '%the fires of "@after 1h" depend on when runs end', '@after');
select throws_like($$select * from pgrab.backfill(6, '2025-01-01', '2025-02-01')$$,
  '%it is the root of a chain', 'a chain');
select throws_like($$select * from pgrab.backfill(1, '2025-02-01', '2025-01-01')$$,
  '%there is nothing from%', 'backwards');
select throws_like($$select * from pgrab.backfill(1, null, '2025-01-01')$$, '%there is nothing from null%',
  'null');
select throws_like($$select * from pgrab.backfill(5, '2025-01-01', '2025-02-01')$$,
  '%it is under limit db, and a task has one limit', 'two limits');
select is((select t.due_at between now() and clock_timestamp() from many m
  join pgrab.task t on t.batch = m.batch), true,
  'without a bound they are due since now');
create temp table own as select * from pgrab.backfill(5, '2025-01-01', '2025-01-03', null);
select is((select string_agg(distinct t.limit_key, ',') from own m join pgrab.task t on t.batch = m.batch),
  'db',
  'its own limit');
select throws_like($$select * from pgrab.backfill(2, '1990-01-01', '2025-01-01')$$,
  '%there are more than 100000 fires',
  'too many');
select throws_ok($$select * from pgrab.backfill(array[1, 2], '2025-01-01', '2025-02-01')$$, '22023',
  'cannot backfill 2 tasks', 'two tasks');

-- What an operator has permitted the task, its copies may have.
create role backfill_test;
do $$ begin create role pgrab_kind_batch; exception when duplicate_object then null; end $$;
do $$ begin create role pgrab_kind_noop; exception when duplicate_object then null; end $$;
do $$ begin create role pgrab_operator; exception when duplicate_object then null; end $$;
grant pgrab_kind_batch, pgrab_kind_noop to backfill_test;
update pgrab.task set priority = 20, owner = 'backfill_test' where id = 2;
update pgrab.cluster set roles = true;
select throws_like($$select pgrab_internal.insert_check(row(t.*)::pgrab_internal.task) from pgrab.task t
  where t.id = 2$$,
  'task priority cannot be%', 'more than he may ask for');
select lives_ok($$select * from pgrab.backfill(2, '2025-01-01', '2025-01-02')$$, 'of a high priority');

select * from finish();
rollback;
