-- The end of a run counts only under the version and the incarnation that it was started with; a failure
-- waits for its next attempt.
begin;
\ir nodes.inc
select plan(32);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at, kinds) values
  ('n1', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 4, 'up', now(), '{noop}');
insert into pgrab.task (kind, name, schedule, max_attempts)
values ('noop', 'once', null, 3), ('noop', 'again', '@every 1h', 3);
update pgrab.task t set status = 'running', version = 1000, node_id = n.id, incarnation = 4, attempt = 1,
  claimed_at = now(), started_at = now() from pgrab.node n;

create function pg_temp.finish(p_name text, p_version bigint, p_incarnation bigint, p_outcome text)
returns bigint
language sql as $$
  select count(*)
  from pgrab.task t cross join lateral pgrab_internal.finish(
    jsonb_populate_record(null::pgrab_internal.outcomes, jsonb_build_object('ids', array[t.id],
      'versions', array[p_version], 'incarnations', array[p_incarnation], 'started_us', array[2000],
      'finished_us', array[1000], 'outcomes', array[p_outcome], 'exit_codes', array[0], 'outputs', array[''],
      'truncated', array[false], 'errors', array['why'])), t.node_id, 'n1') f
  where t.name = p_name
$$;

select is(pg_temp.finish('once', 999, 4, 'succeeded'), 0::bigint, 'a success of an older version is refused');
select is(pg_temp.finish('once', 1000, 5, 'succeeded'), 0::bigint, 'one of another incarnation, too');
select is(pg_temp.finish('once', 999, 4, 'failed'), 0::bigint, 'a failure of an older version');
select is(pg_temp.finish('once', 1000, 5, 'failed'), 0::bigint, 'a failure of another incarnation');
select is(pg_temp.finish('again', 999, 4, 'succeeded'), 0::bigint, 'of a schedule, an older version');
select is(pg_temp.finish('again', 1000, 5, 'succeeded'), 0::bigint, 'and another incarnation');
select results_eq('select name, status, version from pgrab.task order by name',
  $$values ('again', 'running', 1000::bigint), ('once', 'running', 1000::bigint)$$, 'they run as before');
select is((select count(*) from pgrab.run), 0::bigint, 'and the history knows nothing of it');
select is(pg_temp.finish('once', 1000, 4, 'succeeded') + pg_temp.finish('again', 1000, 4, 'succeeded'),
  2::bigint, 'the right ones count');
select is(pg_temp.finish('again', 1000, 4, 'succeeded'), 0::bigint, 'once');

-- how long a retry waits
select is(pgrab_internal.retry_wait('5 s', '1 hour', 1) between '4.5 s' and '5.5 s', true,
  'the first wait is the backoff, +-10 %');
select is(pgrab_internal.retry_wait('5 s', '1 hour', 4) between '36 s' and '44 s', true, 'then it doubles');
select is(pgrab_internal.retry_wait('5 s', '1 hour', 1000) between '54 min' and '66 min', true,
  'up to backoff_max');
select is(pgrab_internal.retry_wait('0', '0', 3), '0', 'no backoff, no wait');

-- what could not begin counts no attempt, and waits only if something was in its way
insert into pgrab.task (kind, name) values ('noop', 'unbegun'), ('noop', 'no worker');
update pgrab.task t set status = 'running', version = 1000, node_id = n.id, incarnation = 4, attempt = 2,
  claimed_at = now(), started_at = now() from pgrab.node n where t.name in ('unbegun', 'no worker');
select pgrab_internal.finish(row(array[t.id], array[1000], array[4], array[0], array[0], array['not_started'],
    array[null], array[null], array[false], array[null], array[w.retry_us], null)::pgrab_internal.outcomes,
  1, 'n1')
from (values ('unbegun', null::bigint), ('no worker', 1)) w(name, retry_us)
  join pgrab.task t using (name);
select results_eq(
  $$select t.name, t.status, t.attempt, t.started_at, t.due_at > clock_timestamp() from pgrab.task t
    where t.name in ('unbegun', 'no worker') order by t.name$$,
  $$values ('no worker', 'scheduled', 1, null::timestamptz, false),
    ('unbegun', 'scheduled', 1, null::timestamptz, true)$$, 'could not begin: as if it had not been started');
select is((select count(*) from pgrab.run r where r.name in ('unbegun', 'no worker')), 0::bigint,
  'and the history knows nothing of it');

-- What a task runs is edited while it runs: the run that goes on is of the text before, and the new text
-- runs, too.
create function pg_temp.starts(p_name text) returns void language sql as $$
  update pgrab.task t set status = 'running', version = t.version + 1, node_id = n.id, incarnation = 4,
    attempt = t.attempt + 1, claimed_at = now(), started_at = now()
  from pgrab.node n where t.name = p_name
$$;
create function pg_temp.ends(p_name text, p_outcome text default 'succeeded') returns bigint
language sql as $$
  select pg_temp.finish(p_name, (select t.version from pgrab.task t where t.name = p_name), 4, p_outcome)
$$;
create function pg_temp.row_of(p_name text) returns text language sql as $$
  select format('%s %s %s, attempt %s', t.status, t.command, t.fire_at <= clock_timestamp(), t.attempt)
  from pgrab.task t where t.name = p_name
$$;
create function pg_temp.ran(p_name text) returns text language sql as $$
  select string_agg(format('%s %s %s', r.kind, r.outcome, coalesce(r.definition,
      pgrab.definition_of(r.task_id, r.version) - 'kind' - 'name') ->> 'command'), ', '
    order by r.finished_at, r.created_at)
  from pgrab.run r where r.name = p_name
$$;
delete from pgrab.task;
insert into pgrab.task (name, key, command) values ('upsert', 'refresh', 'call refresh(1)');
select pg_temp.starts('upsert');
insert into pgrab.task (key, command) values ('refresh', 'call refresh(2)')
on conflict (key) do update set command = excluded.command;
select is(pg_temp.ends('upsert'), 1::bigint, 'the run ends as it was started');
select is(pg_temp.row_of('upsert'), 'scheduled call refresh(2) t, attempt 0',
  'an upsert of a running task becomes its next run');
select is(pg_temp.ran('upsert'), 'sql succeeded call refresh(1)', 'the history says what has run');
select pg_temp.starts('upsert');
update pgrab.task set kind = 'shell', command = 'refresh 3' where name = 'upsert';
select pg_temp.ends('upsert', 'failed');
select is(pg_temp.row_of('upsert'), 'scheduled refresh 3 t, attempt 0',
  'after a failure, too, with all its attempts');
select is(pg_temp.ran('upsert'), 'sql succeeded call refresh(1), sql failed call refresh(2)',
  'and the kind on record is that of the run');
select pg_temp.starts('upsert');
update pgrab.task set timeout = '1 minute' where name = 'upsert';
select pg_temp.ends('upsert');
select is(pg_temp.row_of('upsert'), null, 'other edits bring no run');
select is((select r.definition from pgrab.run r where r.name = 'upsert' and r.ended is not null),
  '{"key": "refresh", "command": "refresh 3"}'::jsonb,
  'nor do they change what is on record of the last one');

insert into pgrab.task (name, command) values ('unbegun', 'select 1');
select pg_temp.starts('unbegun');
update pgrab.task set command = 'select 2' where name = 'unbegun';
select pg_temp.ends('unbegun', 'not_started');
select is(pg_temp.row_of('unbegun'), 'scheduled select 2 t, attempt 0', 'not begun, it begins as it is now');
select pg_temp.starts('unbegun');
select pg_temp.ends('unbegun');
select is(pg_temp.row_of('unbegun'), null, 'and runs once');

insert into pgrab.task (name, command, schedule, max_runs) values ('last', 'select 1', '@every 1h', 2);
select pg_temp.starts('last');
update pgrab.task set command = 'select 2' where name = 'last';
select pg_temp.ends('last');
select is(pg_temp.row_of('last'), 'scheduled select 2 f, attempt 0', 'a schedule has its next fire');
select pg_temp.starts('last');
select throws_ok($$update pgrab.task set command = 'select 3' where name = 'last'$$, '55000',
  format('task %s (last) is running', (select t.id from pgrab.task t where t.name = 'last')));
update pgrab.task set command = 'select 3', max_runs = 3 where name = 'last';
select pg_temp.ends('last');
select is(pg_temp.row_of('last'), 'scheduled select 3 f, attempt 0', 'which the edit may have given it');

insert into pgrab.task (name, command) values ('root', 'select 1');
insert into pgrab.task (name, command, parent_id) select 'child', 'select 1', t.id
from pgrab.task t where t.name = 'root';
select pg_temp.starts('root');
select throws_ok($$update pgrab.task set args = '{"params": [1]}' where name = 'root'$$, '55000',
  format('task %s (root) is running', (select t.id from pgrab.task t where t.name = 'root')));
select lives_ok($$update pgrab.task set command = 'select 2' where name = 'child'$$,
  'a link that waits will run it');

-- a run that was lost before the clock was set back is tried again at once
insert into pgrab.task (name, kind) values ('lost', 'noop');
select pg_temp.starts('lost');
update pgrab.task set due_at = clock_timestamp() + interval '3 hours' where name = 'lost';
select pg_temp.ends('lost', 'lost');
select ok((select t.due_at <= clock_timestamp() from pgrab.task t where t.name = 'lost'),
  'what is lost is due now, not when the clock said so');

-- in the session of a sql task the server compiles what looks expensive, and without sequential scans that is
-- every table that is read without an index
create function pg_temp.cost(p_statement text) returns numeric language plpgsql set enable_seqscan = off as $$
declare
  v_plan jsonb;
begin
  execute 'explain (format json) ' || p_statement into v_plan;
  return (v_plan #>> '{0,Plan,Total Cost}')::numeric;
end $$;
select cmp_ok(pg_temp.cost($$select exists (
    select from pgrab.alert a where a.enabled and 'succeeded' = any (a.events))$$), '<', 1000::numeric,
  'the end of a run compiles nothing');

select * from finish();
rollback;
