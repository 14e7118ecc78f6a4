-- Upkeep: the days of the history; nodes and lanes that are gone.
begin;
\ir nodes.inc
select plan(33);
set local timezone = 'UTC';
create function pg_temp.day(p_days integer) returns text language sql as $$
  select 'run_' || to_char(
    clock_timestamp() at time zone 'UTC' + make_interval(days => p_days), 'YYYYMMDD') $$;
create function pg_temp.partition_of(p_id bigint) returns text language sql as $$
  select tableoid::regclass::text from pgrab.run where task_id = p_id $$;
create function pg_temp.note(p_id bigint, p_days integer) returns void language sql as $$
  insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner)
  values (p_id, 1, clock_timestamp() + make_interval(days => p_days), now(), 1, 'succeeded', 'noop',
    'app') $$;

-- --------------------------------------------------------------------------------------------------- days
select is((select array_agg(partition order by partition) from pgrab.upkeep(p_days_ahead => 5)
    where what = 'made' and partition like 'run%'),
  array[pg_temp.day(4), pg_temp.day(5)], 'the days ahead are made');
select is((select count(*) from pgrab.upkeep(p_days_ahead => 5)), 0::bigint, 'once');
select pg_temp.note(1, 8);
select is(pg_temp.partition_of(1), 'pgrab.run_rest', 'a day that nobody has made goes with the rest');
select is((select array_agg(u.partition) from pgrab.upkeep() u), array[pg_temp.day(8)], 'until it is made');
select is(pg_temp.partition_of(1), 'pgrab.' || pg_temp.day(8), 'then it has moved');
select is((select count(*) from only pgrab.run_rest), 0::bigint, 'and nothing is left with the rest');
select pg_temp.note(2, -20);
select is((select array_agg(u.what order by u.what) from pgrab.upkeep('30 days') u), '{made}',
  'what lies within the retention is kept');
select is((select array_agg(u.partition order by u.partition) from pgrab.upkeep() u), array[pg_temp.day(-20)],
  'what lies behind it is dropped');
select is((select count(*) from pgrab.run where task_id = 2), 0::bigint, 'with its rows');
select is((select array_agg(c.relname::text) from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind = 'r'
      and c.relreplident = 'd' and not exists (
        select from pg_index i where i.indrelid = c.oid and i.indisprimary)), null,
  'every table can be replicated');

-- -------------------------------------------------------------------------------------------------- nodes
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
select x.name, 'h', 1, '0', 'id_hash', 1, '1 s', '10 s', now() - interval '10 days', x.n, x.state,
  now() - x.silent
from (values ('up', 1, 'up', interval '9 days'), ('long', 2, 'down', '9 days'), ('short', 3, 'down', '1 day'),
  ('holds', 4, 'down', '9 days')) x(name, n, state, silent);
insert into pgrab.drained (node_id) select n.id from pgrab.node n where n.name in ('long', 'short');
insert into pgrab.hold values (4, 1, '{1}');
select pgrab.upkeep();
select is((select array_agg(n.name order by n.name) from pgrab.node n), '{holds,short,up}',
  'a node leaves that has been down for longer than the retention and holds nothing');
select is((select count(*) from pgrab.drained), 1::bigint, 'and nobody asks it to drain any more');
select is((select array_agg(n.name order by n.name) from pgrab.node n where n.down), '{holds,short}',
  'who is down is marked, so that nobody looks at its beats');
-- wishes that somebody's run be stopped; node 1 is up, 3 is down
insert into pgrab.task (id, kind, run_at) overriding system value values
  (900, 'noop', '2099-01-01'), (904, 'noop', '2099-01-01');
update pgrab.task set version = 7;
insert into pgrab.cancel_request (task_id, version, incarnation) values
  (900, 7, 3), (901, 7, 3), (902, 7, 1), (903, 7, 99), (904, 6, 3);
select pgrab.upkeep();
select is((select array_agg(c.task_id || ' ' || c.version order by c.task_id) from pgrab.cancel_request c),
  '{"900 7","902 7"}', 'a wish goes when neither its run nor its node is there any more');
delete from pgrab.task;
delete from pgrab.cancel_request;
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
select 'pod-' || n, 'h', 1, '0', 'id_hash', 1, '1 s', '10 s', now() - interval '1 day', 1000 + n, 'down',
  now() - n * interval '1 minute' from generate_series(1, 300) n;
select pgrab.upkeep();
select is((select array_agg(n.name order by n.id) from pgrab.node n where n.name like 'pod-%'),
  (select array_agg('pod-' || n order by n) from generate_series(1, 100) n),
  'of many the last hundred stay; each for an hour');

-- -------------------------------------------------------------------------------------------------- lanes
create function pg_temp.lanes() returns text[] language sql as $$
  select coalesce(array_agg(distinct l.require ->> 'l' order by l.require ->> 'l'), '{}') from pgrab.lane l
  where l.require ? 'l' $$;
insert into pgrab.task (kind, require, run_at) values
  ('noop', '{"l": "due"}', now()), ('noop', '{"l": "later"}', now() + interval '1 year'),
  ('noop', '{"l": "gone"}', now()), ('noop', '{"l": "paused"}', now()), ('noop', '{"l": "runs"}', now());
update pgrab.task set paused = true where require = '{"l": "paused"}';
update pgrab.task set status = 'running', node_id = 1, incarnation = 1 where require = '{"l": "runs"}';
delete from pgrab.task where require = '{"l": "gone"}';
select is(pg_temp.lanes(), '{due,gone,later,paused,runs}', 'lanes are known');
select sum(pgrab_internal.lanes_leave(n)) from generate_series(1, 64) n;
select is(pg_temp.lanes(), '{due,later,paused,runs}', 'one that nothing stands in leaves');
delete from pgrab.lane;
select is(pgrab_internal.lanes_mend(), 3::bigint, 'lanes that are missing are found');
select is(pg_temp.lanes(), '{due,later,runs}', 'those that something stands in');
select is(pgrab_internal.lanes_mend(), 0::bigint, 'once');
delete from pgrab.lane;
select pgrab_internal.lanes_tick();
select is(pg_temp.lanes(), '{due,later,runs}', 'the clock does it');
delete from pgrab.lane;
select pgrab_internal.lanes_tick();
select is(pg_temp.lanes(), '{}', 'once a minute');
update pgrab.duty set done_at = clock_timestamp() + interval '1 hour' where duty = 'lanes';
select pgrab_internal.lanes_tick();
select is(pg_temp.lanes(), '{due,later,runs}', 'also when the clock has been put back');

-- ------------------------------------------------------------------------------------ what others may hold
select pg_advisory_xact_lock(hashtextextended('pgrab.upkeep', 0));
select pg_temp.note(3, 9);
select is((select array_agg(u.partition) from pgrab.upkeep() u), array[pg_temp.day(9)],
  'no lock that anybody may take');
update pgrab.task set require = '{"l": "edited"}' where require = '{"l": "runs"}';
select is('edited' = any (pg_temp.lanes()), true,
  'the lane of a run that is edited is known before it comes again');
-- by hand
select throws_ok($$select pgrab.upkeep('-30 days')$$, '22023',
  'upkeep cannot keep -30 days of the history and make 3 days ahead', 'history that is being written stays');
select throws_ok($$select pgrab.upkeep('1 hour')$$, '22023', null, 'and all of today''s');
select throws_ok($$select pgrab.upkeep(null)$$, '22023', null, 'however it is asked');
select throws_ok($$select pgrab.upkeep('7 days', -30)$$, '22023', null, 'days that are past are not made');
select pgrab.upkeep('365 days', 0);
select is((select e.detail from pgrab.event e where e.what = 'upkeep' order by e.at desc limit 1),
  '{"retention": "365 days", "days_ahead": 0}', 'who did it is on record');
select pgrab_internal.day_make('run', pgrab_internal.today() - 100);
insert into pgrab.task (id, kind, schedule, keep) overriding system value
values (900, 'noop', '@daily', '1 year');
insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner)
select case i when 1 then 900 else 901 end, 1,
  (pgrab_internal.today() - 100)::timestamp at time zone 'UTC', now(), 1, 'succeeded', 'noop', 'x'
from generate_series(1, 26) i;
select is(pgrab_internal.day_leave('run_' || to_char(pgrab_internal.today() - 100, 'YYYYMMDD'),
  pgrab_internal.today() - 100, 10), false, 'a day of which something is kept stays');
select is((select count(*) from pgrab.run where task_id in (900, 901)), 16::bigint,
  'the rest goes in slices');

-- ---------------------------------------------------------------------------------------------------- duties
select is((select array_agg(distinct m.name[1])
  from pg_proc p cross join regexp_matches(p.prosrc, 'duty_take\(''(\w+)''', 'g') m(name)
  where p.pronamespace = 'pgrab_internal'::regnamespace
    and not exists (select from pgrab.duty d where d.duty = m.name[1])), null,
  'each duty has a row, without which nobody would ever do it');

select * from finish();
rollback;
