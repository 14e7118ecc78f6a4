-- Runs that take longer than usual, and fires that begin late.
begin;
\ir alert.inc
select plan(15);
set local timezone = 'UTC';
insert into pgrab.task (id, key, kind, command, schedule, slow_after) overriding system value values
  (1, 'nightly', 'noop', '', '@every 1h', '5 minutes'), (2, 'hourly', 'noop', '', '@every 1h', null),
  (3, 'new', 'noop', '', '@every 1h', null);
update pgrab.task set durations = '\x6161616161' where id = 2;
create function pg_temp.begins(p_id bigint, p_ago interval) returns void language sql as $$
  update pgrab.task t set status = 'running', due_at = coalesce(t.due_at, now()), node_id = 1,
    incarnation = 11, version = t.version + 1, attempt = 1, started_at = clock_timestamp() - p_ago
  where t.id = p_id;
  insert into pgrab.hold (incarnation, batch, ids) values (11, 100 + p_id, array[p_id])
  on conflict do nothing
$$;
create function pg_temp.looks() returns text language sql as $$
  update pgrab.duty set done_at = '-infinity' where duty = 'slow';
  select pgrab_internal.slow_tick();
  select pg_temp.told()
$$;
select throws_ok($$insert into pgrab.task (command, slow_after) values ('x', '1 ms')$$, '22023', null,
  'less than a second is refused');
select pg_temp.begins(1, '4 minutes'), pg_temp.begins(2, '20 s'), pg_temp.begins(3, '10 days');
select is(pg_temp.looks(), null, 'nobody wants to hear of it');
select is((select count(*) from pgrab.event where what in ('slow', 'late')), 0::bigint, 'so nobody looks');
insert into pgrab.alert (name, events, template) values
  ('a', '{slow}', '{"kind": "notify", "command": "a"}');
select is(pg_temp.looks(), null, 'nothing is slow');
select pg_temp.begins(1, '6 minutes');
select matches(pg_temp.looks(), '^a nightly is slow: it has been running since \S+ \S+; longer than '
  'slow_after \(00:05:00\)$', 'longer than slow_after');
select matches(pg_temp.looks(), '^a nightly [^;]+; longer[^;]+$', 'told once');
select is(pgrab_internal.slow_tick(), 0::bigint, 'not looked for all the time');
delete from pgrab.task where source = 'pgrab.alert';
select pg_temp.begins(2, '1 minute');
select matches(pg_temp.looks(),
  '^a hourly is slow: .*; 95 % of its last runs took no longer than 00:00:10$',
  'three times as long as usual');
select is((select (e.what, e.task, e.detail ->> 'why')::text from pgrab.event e where e.task_id = 1
    and e.what = 'slow'), '(slow,nightly,"longer than slow_after (00:05:00)")', 'and the events have it');
delete from pgrab.task where source = 'pgrab.alert';
select pg_temp.begins(1, '10 minutes');
update pgrab.event set at = at - interval '1 hour' where what = 'slow';
select matches(pg_temp.looks(), '^a nightly', 'its next run is another one');

-- late: only for a digest
delete from pgrab.task where source = 'pgrab.alert';
insert into pgrab.task (id, name, kind, run_at) overriding system value values
  (5, 'early', 'noop', now() - interval '30 s'), (6, 'late', 'noop', now() - interval '3 minutes');
update pgrab.task set created_at = now() - interval '1 hour', fire_at = run_at, due_at = run_at
where id in (5, 6);
select pg_temp.looks();
select is((select count(*) from pgrab.event where what = 'late'), 0::bigint, 'nobody asked what is late');
insert into pgrab.alert (name, events, schedule, template) values
  ('d', '{digest}', '@daily', '{"kind": "notify", "command": "d"}');
select pg_temp.looks();
select is((select string_agg(e.task, ' ') from pgrab.event e where e.what = 'late'), 'late',
  'what is late by more than a minute is written down');
select ok((select e.detail ->> 'why' is not null from pgrab.event e where e.what = 'late'), 'and why it is');
select pg_temp.looks();
select is((select count(*) from pgrab.event e where e.what = 'late'), 1::bigint, 'once an hour');
update pgrab.event set at = at - interval '2 hours' where what = 'late';
select pg_temp.looks();
select is((select count(*) from pgrab.event e where e.what = 'late'), 2::bigint, 'and then again');
select * from finish();
rollback;
