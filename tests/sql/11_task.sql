-- How the row of a task is completed, and how an edit is honoured.
begin;
select plan(46);
set local timezone = 'UTC';

-- ------------------------------------------------------------ what the system writes is not taken from a row
create temporary table forged as select '2000-01-01Z'::timestamptz as old;
insert into pgrab.task (id, kind, owner, created_at, updated_at, due_at, status, version, node_id,
  incarnation, attempt, fire_at, claimed_at, started_at, runs, failures, last_outcome, last_error,
  last_finished_at, run_at) overriding system value
select 1, 'noop', 'mallory', f.old, f.old, f.old, 'running', 99, 7, 8, 50, f.old, f.old, f.old, 3, 4,
  'succeeded', 'x', f.old, now() + interval '1 day' from forged f;
select is((t.owner, t.created_at, t.updated_at)::text, (session_user::text, now(), now())::text,
  'owner and times are the system''s')
from pgrab.task t where t.id = 1;
select is((t.status, t.version, t.attempt, t.runs, t.failures)::text,
  format('(scheduled,%s,0,0,0)', (date_part('epoch', now()) * 1e6)::bigint),
  'it begins scheduled, at a version that never repeats, without attempts')
from pgrab.task t where t.id = 1;
select is((t.due_at, t.fire_at)::text, (now() + interval '1 day', now() + interval '1 day')::text,
  'it is due at run_at')
from pgrab.task t where t.id = 1;
select is(num_nonnulls(t.node_id, t.incarnation, t.claimed_at, t.started_at, t.last_outcome, t.last_error,
    t.last_finished_at), 0, 'nobody holds it and it has no past')
from pgrab.task t where t.id = 1;
insert into pgrab.task (id, kind) overriding system value values (2, 'noop');
select is((t.run_at, t.due_at, t.fire_at)::text, (n.at, n.at, n.at)::text,
  'without run_at it is due now, a microsecond later')
from (select now() + interval '1 us' as at) n, pgrab.task t where t.id = 2;
insert into pgrab.task (id, kind, command, args, run_at, paused, schedule, timezone, starts_at, ends_at,
  max_runs, misfire, misfire_after, misfire_limit, jitter, priority, timeout, max_attempts, backoff,
  backoff_max, delivery, parent_id, run_if, require, limit_key, key, name, source, on_failure, owner)
overriding system value
values (99, 'noop', null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null, null, null, null, null, null, null, null, null, null, null, null, null);
select is(to_jsonb(a) - x.n, to_jsonb(b) - x.n, 'null means the default')
from pgrab.task a, pgrab.task b, (select '{id,run_at,due_at,fire_at}'::text[] as n) x
where a.id = 99 and b.id = 2;
select is(t.due_at, now(), 'run_at, too') from pgrab.task t where t.id = 99;
delete from pgrab.task where id = 99;
insert into pgrab.task (id, kind, paused) overriding system value values (3, 'noop', true);
select is((t.due_at, t.fire_at, t.status)::text, (null::timestamptz, now(), 'scheduled')::text,
  'a paused task has no due_at')
from pgrab.task t where t.id = 3;
-- "paused = false" makes it due again, at the time it was planned for
update pgrab.task set paused = false where id = 3;
select is((t.due_at, t.version)::text, (now(), (date_part('epoch', now()) * 1e6)::bigint + 1)::text,
  'unpaused it is due as planned, with a new version')
from pgrab.task t where t.id = 3;
update pgrab.task set paused = true where id = 3;
select is((t.due_at, t.version)::text,
  (null::timestamptz, (date_part('epoch', now()) * 1e6)::bigint + 2)::text,
  'paused it has no due_at, and a new version')
from pgrab.task t where t.id = 3;

-- ----------------------------------------------------------------------------------------------------- edits
-- puts a task into a state as a node would; none of these columns is watched by the trigger for edits
create function pg_temp.hold(p_id bigint, p_status text) returns void language sql as $$
  update pgrab.task set status = p_status, version = 10, node_id = 1, incarnation = 2, claimed_at = now(),
    attempt = case p_status when 'running' then 1 else 0 end,
    started_at = case p_status when 'running' then now() end
  where id = p_id
$$;
create function pg_temp.fence(p_id bigint) returns text language sql as $$
  select (t.status, t.version, t.node_id, t.incarnation)::text from pgrab.task t where t.id = p_id
$$;
insert into pgrab.task (id, kind, run_at, key) overriding system value
select n, 'noop', now() + interval '1 hour', 'key ' || n from generate_series(10, 30) n;

select pg_temp.hold(10, 'claimed');
update pgrab.task set priority = 1 where id = 10;
select is(pg_temp.fence(10), '(scheduled,11,,)',
  'an edit takes a claimed task from its node, with a new version');
select is((t.due_at, t.claimed_at)::text, (now() + interval '1 hour', null::timestamptz)::text,
  'it stays due when it was')
from pgrab.task t where t.id = 10;
select isnt(t.updated_at, t.created_at, 'an edit is dated') from pgrab.task t where t.id = 10;

select pg_temp.hold(11, 'claimed');
update pgrab.task set paused = true where id = 11;
select is(pg_temp.fence(11), '(scheduled,11,,)', 'a pause takes a claimed task from its node');
select is(t.due_at, null, 'and it is not due') from pgrab.task t where t.id = 11;

select pg_temp.hold(12, 'running');
update pgrab.task set command = 'x', max_attempts = 1, run_at = now() + interval '5 hours' where id = 12;
select is(pg_temp.fence(12), '(running,10,1,2)', 'a task that runs keeps its fence through an edit');
select is((t.command, t.max_attempts, t.attempt)::text, '(x,1,1)', 'the edit is kept')
from pgrab.task t where t.id = 12;
update pgrab.task set paused = true where id = 12;
select is(pg_temp.fence(12), '(running,10,1,2)', 'a pause leaves a running task alone');

select pg_temp.hold(13, 'claimed');
insert into pgrab.task (key, kind, run_at) values ('key 13', 'noop', now() + interval '1 hour')
on conflict (key) do update set kind = excluded.kind, run_at = excluded.run_at, command = excluded.command;
select is(pg_temp.fence(13), '(claimed,10,1,2)', 'an upsert that changes nothing disturbs nothing');
select is(t.updated_at, t.created_at, 'nor is it dated') from pgrab.task t where t.id = 13;
insert into pgrab.task (key, kind, command) values
  ('key 13', 'noop', 'new')
on conflict (key) do update set command = excluded.command;
select is(pg_temp.fence(13), '(scheduled,11,,)', 'an upsert that changes something is an edit');

-- a retry that waits is planned for later than its fire; an edit of something else leaves that wait alone
update pgrab.task set attempt = 2, due_at = now() + interval '9 hours' where id = 14;
update pgrab.task set name = 'waits' where id = 14;
select is((t.due_at, t.attempt)::text, (now() + interval '9 hours', 2)::text,
  'an edit does not shorten a wait')
from pgrab.task t where t.id = 14;
update pgrab.task set run_at = now() + interval '2 hours' where id = 14;
select is((t.due_at, t.fire_at, t.attempt)::text,
  (now() + interval '2 hours', now() + interval '2 hours', 0)::text,
  'a new run_at is a new fire, with all its tries')
from pgrab.task t where t.id = 14;

-- parked
update pgrab.task set status = 'parked', due_at = null, attempt = 3, version = 20, last_error = 'boom'
where id = 15;
update pgrab.task set max_attempts = 9 where id = 15;
select is((t.status, t.due_at, t.attempt)::text, '(parked,,3)', 'an edit does not wake a parked task')
from pgrab.task t where t.id = 15;
update pgrab.task set run_at = now() + interval '1 minute' where id = 15;
select is((t.status, t.due_at, t.attempt)::text, ('scheduled'::text, now() + interval '1 minute', 0)::text,
  'a new run_at does')
from pgrab.task t where t.id = 15;

update pgrab.task set paused = true, run_at = now() + interval '3 hours' where id = 16;
select is((t.due_at, t.fire_at)::text, (null::timestamptz, now() + interval '3 hours')::text,
  'a paused task can be given a new time and stays paused')
from pgrab.task t where t.id = 16;
update pgrab.task set paused = false where id = 16;
select is(t.due_at, now() + interval '3 hours', 'and is due then') from pgrab.task t where t.id = 16;

select pg_temp.hold(17, 'claimed');
delete from pgrab.task where id = 17;
select is(count(*), 0::bigint, 'a claimed task can be deleted') from pgrab.task where id = 17;

-- ---------------------------------------------------------------------------------------------------- shards
select is(min(pgrab.shard(n)) || '-' || max(pgrab.shard(n)) || ' ' || count(distinct pgrab.shard(n)),
  '0-1023 1024', 'consecutive ids use all 1024 shards')
from generate_series(1, 100000) n;
create function pg_temp.spread(p_ids bigint[]) returns boolean language sql as $$
  -- about a thousand ids per shard: within six standard deviations of it
  select max(abs(c.n - e.each)) < 6 * sqrt(max(e.each))
  from (select cardinality(p_ids) / 1024.0 as each) e, lateral (
    select count(i.id) as n
    from generate_series(0, 1023) s left join unnest(p_ids) i(id) on pgrab.shard(i.id) = s
    group by s) c
$$;
select ok(pg_temp.spread(array(select n from generate_series(1, 200000) n)), 'consecutive ids spread evenly');
select ok(pg_temp.spread(array(select -n from generate_series(1, 200000) n)), 'negative ids spread evenly');
select ok(pg_temp.spread(array(select 9223372036854775807 - n from generate_series(1, 200000) n)),
  'huge ids spread evenly');
select ok(pg_temp.spread(array(select n * 1024 from generate_series(1, 200000) n)),
  'multiples of 1024 spread evenly');
select ok(pg_temp.spread(array(select n::bigint << 32 from generate_series(1, 200000) n)),
  'ids that differ in the upper half only spread evenly');
select is(pgrab.shard(n), pgrab.shard(n), 'the same id, the same shard')
from (select -9223372036854775808 as n) x;

-- Random text, because a long one that can be compressed would fit into the index.
select throws_ok($$insert into pgrab.task (kind, key)
  select 'noop', string_agg(md5(i::text), '') from generate_series(1, 100) i$$, '22023', null,
  'a key that is too long for its index is refused in our words');

-- -------------------------------------------------------------------------------- everything says what it is
select is((select string_agg(c.relname, ', ') from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p', 'v')
      and obj_description(c.oid, 'pg_class') is null),
  null, 'every table and view has a comment');
select is((select string_agg(c.relname || '.' || a.attname, ', ')
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
      and col_description(c.oid, a.attnum) is null),
  null, 'every column has a comment');
select is((select string_agg(p.proname, ', ') from pg_proc p
    where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_tool'::regnamespace)
      and obj_description(p.oid, 'pg_proc') is null),
  null, 'every function has a comment');
select isnt(obj_description('pgrab'::regnamespace, 'pg_namespace'), null, 'the schema has a comment');
select is((select string_agg(c.relname, ', ') from pg_class c join pg_index i on i.indexrelid = c.oid
    where c.relnamespace = 'pgrab'::regnamespace and not c.relispartition
      and not exists (select from pg_constraint k where k.conindid = c.oid)
      and obj_description(c.oid, 'pg_class') is null),
  null, 'every index that is not a constraint has a comment');

-- An UPDATE of run_at is honoured, also to the time at which a new task would fire; an upsert has worked that
-- out and keeps the plan.
insert into pgrab.task (key, kind, schedule) values ('hourly', 'noop', '@every 1h');
update pgrab.task set run_at = now() + interval '5 h' where key = 'hourly';
insert into pgrab.task (key, kind, schedule) values ('hourly', 'noop', '@every 1h')
on conflict (key) do update set schedule = excluded.schedule, run_at = excluded.run_at;
select is((select t.run_at - now() from pgrab.task t where t.key = 'hourly'), interval '5 h', 'an upsert');
insert into pgrab.task (key, kind, schedule) values ('other', 'noop', '@every 1h');
update pgrab.task set run_at = now() + interval '5 h' where key = 'other';
insert into pgrab.task (key, kind, schedule)
select k, 'noop', '@every 1h' from unnest('{hourly,other,new}'::text[]) k
on conflict (key) do update set schedule = excluded.schedule, run_at = excluded.run_at;
select results_eq($$select t.run_at - now() from pgrab.task t where t.key in ('hourly', 'other')$$,
  array['5 h'::interval, '5 h'], 'an upsert of several');
update pgrab.task set run_at = now() + interval '1 h' where key = 'hourly';
select is((select t.run_at - now() from pgrab.task t where t.key = 'hourly'), interval '1 h', 'an edit');
update pgrab.task set run_at = default where key = 'hourly';
select is((select t.run_at - now() from pgrab.task t where t.key = 'hourly'), interval '1 h', 'no time');
insert into pgrab.task (key, kind, schedule, run_at)
values ('hourly', 'noop', '@every 1h', now() + interval '2 h')
on conflict (key) do update set run_at = excluded.run_at;
select is((select t.run_at - now() from pgrab.task t where t.key = 'hourly'), interval '2 h',
  'an upsert that says when');

select * from finish();
rollback;
