-- Limits: who keeps a place, and who stands in line.  What real nodes make of it: test_limits.py.
begin;
\ir limit.inc
select plan(56);
set local timezone = 'UTC';

-- ---------------------------------------------------------------------------------------- one at a time
insert into pgrab.limit (key, max_running) values ('a', 1), ('b', 1);
select pg_temp.add('a') as one, pg_temp.add('a') as two \gset
select is(pg_temp.starts(:one), true, 'one at a time');
select is(pg_temp.starts(:two), false, 'the second stands in line');
update pgrab.task set limit_key = 'b' where id = :one;
select pg_temp.tick();
select is(pg_temp.due(:two), false, 'a run keeps its place when its task is given another key');
update pgrab.limit set key = 'c' where key = 'a';
select is(pg_temp.due(:two), true, 'a limit that is renamed leaves nobody in its line');
select is(pg_temp.starts(:two), true, 'and the old key does not limit any more');
select is(pg_temp.ends(:one, pg_temp.version(:one)), 1::bigint, 'a run that began under the old key ends');
select is((select count(*) from pgrab.limit_place), 0::bigint, 'and leaves no place behind');

delete from pgrab.limit_use;
select pg_temp.add('c') as one, pg_temp.add('c') as two \gset
select is(pg_temp.starts(:one), true, 'a limit that came without its trigger');
select is(pg_temp.starts(:two), false, 'counts all the same');

-- ------------------------------------------------------------------------------- through the end of a task
insert into pgrab.limit (key, max_running) values ('d', 1);
select pg_temp.add('d') as one, pg_temp.add('d') as two, pg_temp.add('d') as three \gset
select pg_temp.starts(:one);
select pg_temp.version(:one) as version \gset
delete from pgrab.task where id = :one;
select is(pg_temp.starts(:two), false, 'a run keeps its place when its task is deleted');
select pg_temp.tick();
select is(pg_temp.due(:two), false, 'and the clock does not take it');
select pgrab_internal.limit_audit();
select pg_temp.tick();
select is(pg_temp.due(:two), false, 'nor does the count');
select is((select running from pgrab.limits where key = 'd'), 1::bigint, 'it is seen to run');
select pg_temp.ends(:one, :version, 12);
select is(pg_temp.due(:two), false, 'nobody else frees it');
select is(pg_temp.ends(:one, :version), 0::bigint, 'its end is not a run of the task that is gone');
select is(pg_temp.due(:two), true, 'and frees the place');
select is(pg_temp.starts(:three), false, 'not for who comes later');
select is(pg_temp.starts(:two, 12), true, 'but for who has waited');
delete from pgrab.task where id = :two;
select pgrab_internal.recover_one('n', 11, null);
select is(pg_temp.due(:three), false, 'recovery leaves the places of others alone');
select pgrab_internal.recover_one('n', 12, null);
select is(pg_temp.due(:three), true, 'recovery frees the place of a run whose task is gone');
select is(pg_temp.starts(:three, 13), true, 'for who has waited');
select pg_temp.add('d') as four \gset
select pg_temp.starts(:four);
delete from pgrab.limit where key = 'd';
select is(pg_temp.due(:four), true, 'a limit that is gone leaves nobody in its line');
insert into pgrab.limit (key, max_running) values ('d', 1);
select is(pg_temp.starts(:four), false, 'a limit that was gone for a moment knows what runs');

-- ------------------------------------------------------------------------------------------------- bands
insert into pgrab.limit (key, max_running) values ('f', 0);
select pg_temp.add('f', -1) as low, pg_temp.add('f', 0) as middle, pg_temp.add('f', 3) as high,
  pg_temp.add('f', 9) as later \gset
update pgrab.task set fire_at = fire_at - interval '16 minutes', due_at = due_at - interval '16 minutes'
where id = :low;
update pgrab.task set fire_at = fire_at + interval '1 ms', due_at = due_at - interval '1 ms'
where id = :later;
select pg_temp.starts(id) from unnest(array[:low, :middle, :high, :later]::bigint[]) id;
select is(pgrab_internal.limit_first('f', 10), array[:high, :later, :low, :middle]::bigint[],
  'in line a band is worth 15 minutes, and within one the first come goes first');
select is((select waiting from pgrab.limits where key = 'f'), 4::bigint, 'four wait');
update pgrab.limit set max_running = 2 where key = 'f';
select pg_temp.tick();
select is((select count(*) from pgrab.task where limit_key = 'f' and due_at is not null), 2::bigint,
  'a limit that was raised lets as many go as there are places');

-- ----------------------------------------------------------- what is due behind a task that goes into line
insert into pgrab.limit (key, max_running) values ('g', 1), ('h', 1);
select pg_temp.add('g') as one, pg_temp.add('g') as two \gset
select is(pg_temp.starts(:one), true, 'one runs, of many that come at once');
-- in the shard of the one that will be refused, and in the next 31
create temporary table behind as
select t.id, pgrab.shard(t.id) between pgrab.shard(:two) and pgrab.shard(:two) + 31 as near
from (select pg_temp.add('g') as id from generate_series(1, 600)) t;
create temporary table beside as
select case n when 1 then pg_temp.add('h') when 2 then pg_temp.add('g', 1) else pg_temp.add(null) end as id
from generate_series(1, 3) n, generate_series(1, 200);
update pgrab.task t set run_at = now() + interval '1 hour' from (select id from behind where near limit 2) l
where t.id = l.id;
select id as kept from behind where near and pg_temp.due(id)
  and not exists (select from pgrab.task t where t.id = behind.id and t.due_at > now()) limit 1 \gset
insert into pgrab.limit_place (task_id, key, at, started) values (:kept, 'g', now(), false);
select is(pg_temp.starts(:two), false, 'the next one waits in line');
select ok((select count(*) > 5 from behind b where b.near), 'there are some in its shards');
select is((select count(*) from behind b join pgrab.task t using (id)
    where b.near and (t.line is distinct from 'g' or t.due_at is not null)), 3::bigint,
  'and all of them wait with it, but for what is not due yet and what has a place kept for it');
select is((select count(*) from behind b join pgrab.task t using (id)
    where b.near and (t.status, t.attempt, t.incarnation) is distinct from ('scheduled', 0, null)), 0::bigint,
  'without having been claimed');
select is((select count(*) from behind b join pgrab.task t using (id)
    where not b.near and t.line is not null), 0::bigint, 'no others: the statement has a bound');
select is((select count(*) from beside join pgrab.task t using (id) where t.line is not null), 0::bigint,
  'nor what needs no place, or one under another key, or is in another lane');
update pgrab.limit set max_running = 1000 where key = 'g';
delete from pgrab.limit_place where task_id = :kept;
select pg_temp.tick();
select is((select count(*) from pgrab.task where limit_key = 'g' and line is not null), 0::bigint,
  'they go when there is room, like any in line');
delete from pgrab.task where limit_key in ('g', 'h') or id in (select id from beside);

-- ------------------------------------------------------------------------------------------------ the rate
insert into pgrab.limit (key, per_second) values ('r', 4);
create temporary table asked as select pg_temp.add('r') as id from generate_series(1, 12);
select is((select count(*) from asked where pg_temp.starts(id)), 4::bigint,
  'so many start at once as may in a second');
select ok((select count(*) between 4 and 8 and max(due_at) < clock_timestamp() + interval '2 s'
    from pgrab.task where limit_key = 'r' and due_at is not null and status = 'scheduled'),
  'the places of the next two seconds are kept');
select ok((select min(g) >= interval '0.25 s' and max(g) < interval '0.26 s' from (
    select due_at - lag(due_at) over (order by due_at) as g from pgrab.task
    where limit_key = 'r' and status = 'scheduled') s),
  'evenly spread, at hardly less than the rate');
select is((select started_1s from pgrab.limits where key = 'r'), 4::bigint, 'pgrab.limits counts the starts');

-- Two ask, and only what is noted for the second is from before the clock stepped back.
insert into pgrab.limit (key, per_second) values ('back', 2);
create temporary table back as select pg_temp.add('back') as id from generate_series(1, 5);
select is((select count(*) from (select id from back order by id limit 2) b where pg_temp.starts(b.id)),
  2::bigint, 'two a second start at once');
update pgrab.limit_start s
set at = clock_timestamp() + case row_number when 1 then 4.5 else 6 end * interval '1 s'
from (select b.key, b.no, row_number() over (order by b.no) from pgrab.limit_start b where b.key = 'back') o
where s.key = o.key and s.no = o.no;
update pgrab.task set status = 'claimed', node_id = 1, incarnation = 11
where id in (select id from back order by id limit 2 offset 2);
select is((
    select count(*)
    from (select array_agg(t.id) as ids, array_agg(t.version) as versions from pgrab.task t
      where t.limit_key = 'back' and t.status = 'claimed') a
      cross join lateral pgrab_internal.limit_take(a.ids, a.versions, 11)), 0::bigint,
  'nobody gets a place before one who was refused');
update pgrab.limit_start set at = at - interval '10 s' where key = 'back';
delete from pgrab.limit_place where key = 'back' and not started;
update pgrab.limit_use set waits = false, planned_at = null where key = 'back';
select is(pg_temp.starts((select max(id) from back)), true, 'and the next start has a number of its own');

-- --------------------------------------------------------------------------- what ten thousand places cost
create function pg_temp.blocks(p_statement text) returns bigint language plpgsql as $$
declare
  v_plan jsonb;
begin
  execute 'explain (analyze, buffers, format json) ' || p_statement into v_plan;
  return (v_plan #>> '{0,Plan,Shared Hit Blocks}')::bigint
    + (v_plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end $$;
insert into pgrab.limit (key, max_running) values ('w', 10000);
insert into pgrab.task (kind, limit_key) select 'noop', 'w' from generate_series(1, 10002);
update pgrab.task set status = 'claimed', node_id = 1, incarnation = 21 where limit_key = 'w';
create temporary table placed as
select t.id from (
  select array_agg(id) as ids, array_agg(version) as versions from pgrab.task where limit_key = 'w') a
cross join lateral pgrab_internal.limit_take(a.ids, a.versions, 21) t(id);
update pgrab.task set status = 'running', started_at = now() where id in (select id from placed);
select is((select count(*) from placed), 10000::bigint, 'ten thousand run at once');
select min(id) as one, min(version) as version from placed join pgrab.task using (id) \gset
select cmp_ok(pg_temp.blocks(format(
    'select pgrab_internal.limit_give_back(array[%s], array[%s], array[21])', :one, :version)),
  '<', 200::bigint, 'with ten thousand places a finish reads a few blocks');
select cmp_ok(pg_temp.blocks('select pgrab_internal.limit_tick()'), '<', 400::bigint,
  'and so does the clock');
select is((select count(*) from pgrab.limit_use), (select count(*) * 2 from pgrab.limit_use where no = 0)
  - (select count(*) from pgrab.limit_use k where k.no = 0
    and not exists (select from pgrab.limit_use u where u.key = k.key and u.no > 0)),
  'of how a limit is used one row counts, and no other is left');

-- ------------------------------------------------------------------------------- a key that changes hands
create role limit_alice;
create role limit_bob;
update pgrab.cluster set roles = true;
insert into pgrab.limit (key, max_running) values ('api', 1);
select pg_temp.add('api') as one, pg_temp.add('api') as two, pg_temp.add('api') as three \gset
update pgrab.task set owner = 'limit_alice' where id in (:one, :two);
update pgrab.task set owner = 'limit_bob' where id = :three;
delete from pgrab.limit where key = 'api';
insert into pgrab.limit (key, max_running, owner) values ('api', 1, 'limit_bob');
update pgrab.limit set owner = 'limit_bob' where key = 'api';
update pgrab.limit set max_running = 0 where key = 'api';
select is((select string_agg(g.verdict || ': ' || g.detail || coalesce(' ' || g.why, ''), ' | ')
    from pgrab.task t cross join lateral pgrab_internal.gates(row(t.*)::pgrab_internal.task, true) g
    where t.id = :two and g.gate = 'limit'),
  'ok: Limit api is not for tasks of limit_alice, so it does not count.',
  'a limit that is now another''s is none');
select is((select g.verdict || ': ' || g.why
    from pgrab.task t cross join lateral pgrab_internal.gates(row(t.*)::pgrab_internal.task, true) g
    where t.id = :three and g.gate = 'limit'), 'blocked: limit api lets nothing run (max_running 0)',
  'but to those of its owner');
update pgrab.limit set max_running = 1 where key = 'api';
select is(pg_temp.starts(:one), true, 'who named a limit that is now another''s is not limited by it');
select is(pg_temp.starts(:two), true, 'nor waits for it');
select is(pg_temp.starts(:three), true, 'and takes no place of its owner''s tasks');
select is((select string_agg(p.task_id::text, ',') from pgrab.limit_place p where p.key = 'api'), :'three',
  'who alone have places');

-- the same for tasks that are in line when it changes hands
insert into pgrab.limit (key, max_running) values ('line', 1);
select pg_temp.add('line') as one, pg_temp.add('line') as two, pg_temp.add('line') as three,
  pg_temp.add('line') as four \gset
select is(array[pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three), pg_temp.starts(:four)],
  '{t,f,f,f}', 'one place: three wait in line');
update pgrab.task set owner = 'limit_alice' where id in (:one, :two, :three);
update pgrab.task set owner = 'limit_bob' where id = :four;
update pgrab.limit set owner = 'limit_bob' where key = 'line';
select is((select g.verdict || ': ' || g.why
    from pgrab.task t cross join lateral pgrab_internal.gates(row(t.*)::pgrab_internal.task, true) g
    where t.id = :two and g.gate = 'limit'), 'waits: waits for a place under limit line',
  'who is in line waits until a run ends');
select pg_temp.ends(:one, pg_temp.version(:one));
select is(array[pg_temp.due(:two), pg_temp.due(:three), pg_temp.due(:four)], '{t,t,t}',
  'strangers in line are let go, and the next of its own is due');
select is((select string_agg(p.task_id::text, ',') from pgrab.limit_place p where p.key = 'line'), :'four',
  'who alone has a place kept');
select is(pg_temp.starts(:two) and pg_temp.starts(:three) and pg_temp.starts(:four), true, 'and all start');

select * from finish();
rollback;
