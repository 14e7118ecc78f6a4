-- Limits that break after failures in a row, and limits for all keys of a pattern.  What real nodes make of
-- it: test_breakers.py.
begin;
\ir limit.inc
select plan(39);
set local timezone = 'UTC';

-- A run ends.  It must have max_attempts 1 for its task to be over.
create function pg_temp.run_ends(p_id bigint, p_outcome text) returns void language sql as $$
  select pgrab_internal.finish((array[p_id], array[pg_temp.version(p_id)], array[11], array[1000], array[0],
    array[p_outcome], null, null, null, array['no'], null, null)::pgrab_internal.outcomes, 1, 'n') $$;
create function pg_temp.fails(p_key text, p_outcome text default 'failed') returns void language plpgsql as $$
declare
  v_id bigint := pg_temp.add(p_key);
begin
  update pgrab.task set max_attempts = 1 where id = v_id;
  if not pg_temp.starts(v_id) then
    raise exception 'task % under % does not start', v_id, p_key;
  end if;
  perform pg_temp.run_ends(v_id, p_outcome);
end $$;
create function pg_temp.state(p_key text) returns text language sql as $$
  select concat_ws(' ', l.failures, case when l.broken_until > clock_timestamp() then 'broken'
    when l.broken_until is not null then 'tried' end) from pgrab.limits l where l.key = p_key $$;
create function pg_temp.time_passes(p_key text, p_time interval) returns void language sql as $$
  update pgrab.limit_use set broken_until = broken_until - p_time where key = p_key $$;

-- --------------------------------------------------------------------------------------------- in a row
insert into pgrab.limit (key, break_after) values ('b', 3);
select pg_temp.fails('b'), pg_temp.fails('b', 'timed_out');
select is(pg_temp.state('b'), '2', 'two failures do not break what breaks after three');
select pg_temp.fails('b', 'lost'), pg_temp.fails('b', 'cancelled');
select is(pg_temp.state('b'), '2', 'a run that was lost or cancelled says nothing');
select pg_temp.fails('b', 'succeeded');
select is(pg_temp.state('b'), '0', 'a success begins anew');
select pg_temp.fails('b'), pg_temp.fails('b'), pg_temp.fails('b');
select is(pg_temp.state('b'), '3 broken', 'three in a row break it');
select ok(broken_until between now() + interval '50 s' and now() + interval '61 s', 'for a minute')
from pgrab.limits where key = 'b';

-- ------------------------------------------------------------------------------------------- one that tries
select pg_temp.add('b') as one, pg_temp.add('b') as two, pg_temp.add('b') as three \gset
select is(pg_temp.starts(:one), false, 'nothing starts then');
select is(pg_temp.starts(:two) or pg_temp.starts(:three), false, 'neither the next');
select pg_temp.tick();
select is(pg_temp.due(:one), false, 'nor later');
select is((select gate || ' ' || verdict from pgrab.explain(:one) where gate = 'limit'), 'limit waits',
  'explain says that it waits');
select matches((select detail from pgrab.explain(:one) where gate = 'limit'),
  '^b is broken after 3 failures in a row\. Nothing starts before .*, then one run at a time', 'and why');
select is((select g.why from pgrab.task t
    cross join pgrab_internal.explain_limit(row(t.*)::pgrab_internal.task, false) g where t.id = :one),
  'limit b is broken after 3 failures in a row', 'so does late');
select pg_temp.time_passes('b', '1 min');
select is(pg_temp.state('b'), '3 tried', 'after that time');
select pg_temp.tick();
select results_eq(format('select id from pgrab.task where id in (%s, %s, %s) and due_at is not null', :one,
  :two, :three), array[:one]::bigint[], 'one is let go, to try');
select pg_temp.tick();
select is((select count(*) from pgrab.task
    where limit_key = 'b' and due_at is not null and status = 'scheduled'), 1::bigint,
  'and no other, however often the clock ticks');
select is(pg_temp.starts(:one), true, 'it starts');
select pg_temp.add('b') as late \gset
select is(pg_temp.starts(:late), false, 'a newcomer does not');
select pg_temp.tick();
select is(pg_temp.due(:two), false, 'while it runs, no other is let go');
update pgrab.task set max_attempts = 1 where id = :one;
select pg_temp.run_ends(:one, 'lost');
select is(pg_temp.due(:two), true, 'it was lost, which says nothing: another one tries');
select is(pg_temp.starts(:two), true, 'that starts');
update pgrab.task set max_attempts = 1 where id = :two;
select pg_temp.run_ends(:two, 'failed');
select is(pg_temp.state('b'), '4 broken', 'it has failed: the limit stays broken');
select is(pg_temp.due(:three), false, 'and nothing starts');
update pgrab.limit set break_for = '1 s' where key = 'b';
select pg_temp.tick();
select is(pg_temp.due(:three), true, 'a shorter time counts at once');
select is(pg_temp.starts(:three), true, 'the next one tries');
select pg_temp.ends(:three, pg_temp.version(:three));
select is(pg_temp.state('b'), '0', 'it has succeeded: the limit is mended');
select is(pg_temp.due(:late), true, 'and those in line are let go');

-- ------------------------------------------------------------------------------------ places that were kept
insert into pgrab.limit (key, max_running, break_after) values ('k', 2, 1);
select pg_temp.add('k') as one, pg_temp.add('k') as two, pg_temp.add('k') as three,
  pg_temp.add('k') as four \gset
select pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three), pg_temp.starts(:four);
update pgrab.task set max_attempts = 1 where id = :two;
select pg_temp.ends(:one, pg_temp.version(:one));
select is(pg_temp.due(:three), true, 'a place is kept for the next in line');
select pg_temp.run_ends(:two, 'failed');
select is(pg_temp.starts(:three), false, 'when the limit breaks that place is gone');
select is((select running from pgrab.limits where key = 'k'), 0::bigint, 'nothing runs');
update pgrab.limit set break_after = null where key = 'k';
select pg_temp.tick();
select is((select count(*) from pgrab.task where limit_key = 'k' and due_at is not null), 2::bigint,
  'without break_after it is not broken');

-- --------------------------------------------------------------------------------------------- patterns
insert into pgrab.limit (key, max_running, break_after) values ('t:*', 1, 2), ('t:vip*', 5, null);
insert into pgrab.limit (key, max_running) values ('t:own', 3);
select pg_temp.add('t:a') as a1, pg_temp.add('t:a') as a2, pg_temp.add('t:b') as b1 \gset
select is(array[pg_temp.starts(:a1), pg_temp.starts(:a2), pg_temp.starts(:b1)], '{t,f,t}',
  'each key of a pattern has a count of its own');
select pg_temp.ends(:a1, pg_temp.version(:a1)), pg_temp.ends(:b1, pg_temp.version(:b1));
select pg_temp.fails('t:b'), pg_temp.fails('t:b'), pg_temp.fails('t:c');
select is(array[pg_temp.state('t:b'), pg_temp.state('t:c')], '{2 broken,1}', 'and breaks alone');
select results_eq(
  $$ select key, max_running from pgrab.limits where key like 't:%' order by key collate "C" $$,
  $$ values ('t:*', 1), ('t:a', 1), ('t:b', 1), ('t:c', 1), ('t:own', 3), ('t:vip*', 5) $$,
  'pgrab.limits shows patterns, and the keys that have been used');
select pg_temp.fails('t:vip1');
select is((select max_running from pgrab.limits where key = 't:vip1'), 5, 'the longest pattern counts');
select throws_ok($$ insert into pgrab.task (kind, limit_key) values ('noop', 't:*') $$, '22023',
  'task limit_key cannot be ''t:*''', 'a task names a key, no pattern');

-- ------------------------------------------------------------------------------------- who makes patterns
create role break_alice;
update pgrab.cluster set roles = true;
create function pg_temp.by_alice(p_key text) returns text language sql as $$
  select format('insert into pgrab.limit (key, max_running, owner) values (%L, 9, %L)', p_key,
    'break_alice') $$;
select throws_ok(pg_temp.by_alice('al*'), '42501', 'limit key ''al*'' is for operators',
  'who only submits makes no pattern, which could be that of all names');
insert into pgrab.limit (key, max_running) values ('all:*', 1);
select throws_ok(pg_temp.by_alice('all:1'), '42501', null, 'nor takes a key from under one');
select lives_ok(pg_temp.by_alice('alice'), 'any other key is free');
select throws_ok($$ update pgrab.limit set key = 'all:2' where key = 'alice' $$, '42501', null,
  'not to be renamed into one');
insert into pgrab.limit (key, max_running) values ('*', 100);
select lives_ok($$ insert into pgrab.task (kind, args, owner)
  values ('batch', '{"max_running": 2}', 'break_alice') $$, 'a batch has its limit whatever the patterns');
select * from finish();
rollback;
