-- Alerts by the clock: alive, digest.
begin;
\ir alert.inc
select plan(27);
set local timezone = 'UTC';
create function pg_temp.puts(p_name text, p_events text, p_schedule text, p_zone text default 'UTC')
returns void language sql as $$
  insert into pgrab.alert (name, events, schedule, timezone, template)
  values (p_name, p_events::text[], p_schedule, p_zone,
    jsonb_build_object('kind', 'notify', 'command', p_name))
$$;
create function pg_temp.comes() returns text language sql as $$
  delete from pgrab.task where source = 'pgrab.alert';
  update pgrab.alert set next_at = clock_timestamp() - interval '1 s' where next_at is not null;
  select pgrab_internal.clock_tick();
  select pg_temp.told()
$$;
select throws_ok($$select pg_temp.puts('x', '{alive}', null)$$, '23514', null, 'alive needs a schedule');
select throws_ok($$select pg_temp.puts('x', '{failed}', '@daily')$$, '23514', null, 'nothing else has one');
select throws_like($$select pg_temp.puts('x', '{digest}', '99 * * * *')$$, 'alert ''x'' cannot be set: %',
  'one that can be read');
select throws_like($$select pg_temp.puts('x', '{digest}', '@daily', 'Nowhere')$$,
  'alert ''x'' cannot be set: %', 'in a zone that there is');
select is((pgrab_internal.clock_tick()).next_us, null, 'nothing is planned');

select pg_temp.puts('pulse', '{alive}', '@every 1m');
select ok((select next_at between now() + interval '50 s' and now() + interval '70 s' from pgrab.alert),
  'it is planned');
select ok((c).next_us between 50000000 and 70000000 and (c).told = 0, 'and not told sooner')
from (select pgrab_internal.clock_tick() as c) x;
select is(pg_temp.comes(), 'pulse all is well: 1 node is up', 'all is well');
select ok((select next_at > now() from pgrab.alert), 'it is planned again');
update pgrab.node set heartbeat_at = now() - interval '1 minute';
select is(pg_temp.comes(), null, 'a node is silent: not a word');
update pgrab.node set heartbeat_at = now();
update pgrab.alert set enabled = false;
select is((select next_at from pgrab.alert), null, 'one that is off is not planned');
update pgrab.alert set enabled = true;
select is(pg_temp.comes(), 'pulse all is well: 1 node is up', 'switched on');
delete from pgrab.alert;

select pg_temp.puts('d', '{digest}', '0 8 * * *', 'Asia/Shanghai');
select is((select extract(hour from next_at) from pgrab.alert), 0::numeric, 'in its zone');
select matches(pg_temp.comes(), '^d since \S+ \S+: nothing failed, was late or slow$', 'a quiet night');
insert into pgrab.task (id, key, kind, schedule, max_attempts, source) overriding system value values
  (1, 'nightly', 'noop', '@every 1h', 1, 'etl'), (2, 'hourly', 'noop', '@every 1h', 1, '');
select pg_temp.ends(1, 'failed', 'disk full'), pg_temp.ends(2, 'failed');
select pg_temp.ends(1, 'timed_out', 'too slow'), pg_temp.ends(2, 'succeeded');
select pgrab_internal.event('slow', 'x', row(t.*)::pgrab_internal.task, '{"why": "longer"}'),
  pgrab_internal.event('edit', 'x', row(t.*)::pgrab_internal.task, '{"why": "longer"}')
from pgrab.task t where id = 2;
update pgrab.alert set told_at = now() - interval '1 minute';
create temp table said as select f.* from pgrab.alert a
  cross join lateral jsonb_to_record(pgrab_internal.digest_facts('d', a.told_at)) f(
    text text, error text, failures text, since text, event text, task text);
select matches((select text from said), '^since \S+ \S+: 3 failed, 1 slow$', 'what happened');
select is((select error from said), E'nightly failed 2 times: too slow\nhourly failed once: boom\n'
  'hourly slow once: longer', 'the worst first, with the last reason');
select is((select (event, task, failures)::text from said), '(digest,"digest d",3)', 'the facts');
update pgrab.alert set task_like = 'night%';
select is(pgrab_internal.digest_facts('d', now()) ->> 'error', 'nightly failed 2 times: too slow', 'by name');
update pgrab.alert set task_like = null, source = 'etl';
select is(pgrab_internal.digest_facts('d', now()) ->> 'error', 'nightly failed 2 times: too slow',
  'by source');
update pgrab.alert set source = null, owner = 'nobody';
select is(pgrab_internal.digest_facts('d', now()) ->> 'error', '', 'by owner');
update pgrab.alert set owner = null;
select matches(pg_temp.comes(), '^d since \S+ \S+: 3 failed, 1 slow$', 'told');
select matches(pg_temp.comes(), 'nothing failed, was late or slow$', 'once');
insert into pgrab.task (key, kind, schedule, max_attempts) select 'k' || i, 'noop', '@every 1h', 1
from generate_series(1, 60) i;
select pg_temp.ends(t.id, 'failed') from pgrab.task t where t.key ~ '^k';
update pgrab.alert set told_at = now() - interval '1 minute';
select is((select cardinality(string_to_array(pgrab_internal.digest_facts('d', a.told_at) ->> 'error',
    E'\n')) from pgrab.alert a), 51, 'fifty lines, and that there are more');
create temp sequence asked;
create or replace function pgrab_internal.may_operate(p_role text) returns boolean
language sql as $$select nextval('pg_temp.asked') > 0$$;
update pgrab.run set owner = 'somebody';
select pgrab_internal.digest_facts('d', now());
select is((last_value, is_called)::text, '(1,t)', 'whether others'' may be told is asked once') from asked;
select pg_temp.puts('both', '{alive,digest,failed}', '@daily');
update pgrab.alert set enabled = false where name = 'd';
select matches(pg_temp.comes(), '^both all is well.*; both since ', 'one alert may hear of both');
insert into pgrab.limit (key, max_running) values ('gone', 1);
update pgrab.alert set template = template || '{"limit_key": "gone"}' where name = 'd';
update pgrab.alert set enabled = true;
delete from pgrab.limit;
set local client_min_messages = error;
select matches(pg_temp.comes(), '^both all is well.*; both since ', 'one that cannot be keeps no other back');
select is((select string_agg(n::text, E'\n') from pgrab_internal.notice n), null, 'nothing is left to tell');
select * from finish();
rollback;
