-- What the clock does to limits, what is repaired, and what people see.
begin;
\ir limit.inc
select plan(24);
set local timezone = 'UTC';

-- --------------------------------------------------------------------------------------- what is not used
insert into pgrab.limit (key, max_running) values ('e', 1);
select pg_temp.add('e') as one, pg_temp.add('e') as two, pg_temp.add('e') as three \gset
select pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three);
select pg_temp.ends(:one, pg_temp.version(:one));
update pgrab.task set paused = true where id = :two;
select is(pg_temp.due(:three), false, 'a place is kept for the first in line');
update pgrab.limit_place set at = at - interval '11 s' where task_id = :two;
select pg_temp.tick();
select is(pg_temp.due(:three), true, 'and goes to the next when that one does not come');

-- ---------------------------------------------------------------------------------- what was not counted
insert into pgrab.limit (key, max_running) values ('g', 2);
select pg_temp.add('g') as one, pg_temp.add('g') as two, pg_temp.add('g') as three \gset
select pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three);
create function pg_temp.used(p_key text) returns text language sql as $$
  select concat_ws(' ', l.running, l.waiting, (select count(*) from pgrab.limit_place p where p.key = p_key))
  from pgrab.limits l where l.key = p_key
$$;
select is(pg_temp.used('g'), '2 1 2', 'two run, one waits');
update pgrab.task set status = 'scheduled', version = version + 1, node_id = null, incarnation = null
where id = :one; -- its end, without giving back
select pg_temp.tick();
select is(pg_temp.due(:three), false, 'a place that was not given back stays taken');
select pgrab_internal.limit_audit();
select is(pg_temp.used('g'), '1 1 1', 'until somebody counts');
select pg_temp.tick();
select is(pg_temp.due(:three), true, 'then the next one may go');
update pgrab.limit_use set taken = taken + 5 where key = 'g';
select pgrab_internal.limit_audit();
select is((select u.taken from pgrab.limit_use u where u.key = 'g' order by u.no desc limit 1), 2::bigint,
  'a number that is wrong is put right: one runs, for one a place is kept');

-- ------------------------------------------------------------------------------------------------ the clock
select pg_temp.add('g') as four \gset
select pg_temp.starts(:three), pg_temp.starts(:four);
update pgrab.limit set max_running = 3 where key = 'g';
select is(pgrab_internal.limit_tick(), 0::bigint, 'it ticks for the whole cluster once a second');
select is(pg_temp.due(:four), false, 'until then nobody sees that a limit was raised');
select pg_temp.tick();
select is(pg_temp.due(:four), true, 'then it lets go as many as there are places');

-- ---------------------------------------------------------------------------------- what a person does
delete from pgrab.event;
update pgrab.limit set max_running = 1 where key = 'g';
delete from pgrab.limit where key = 'g';
select is((select string_agg(concat_ws(' ', e.what, e.task, k.key), ', ' order by e.at)
    from pgrab.event e cross join jsonb_object_keys(e.detail) k(key)), 'limit g update, limit g delete',
  'who changes a limit is written down');
select is((select string_agg(distinct e.role, ',') from pgrab.event e), current_user::text, 'with his name');
select pgrab_internal.limit_audit();
select is((select count(*) from pgrab.limits), 1::bigint, 'what was deleted is not shown');
select is((select u.taken from pgrab.limit_use u where u.key = 'g' order by u.no desc limit 1), 3::bigint,
  'but its places are remembered as long as somebody has them');

-- --------------------------------------------------------------------------------- a clock that steps back
-- What was noted before is an hour ahead.
insert into pgrab.limit (key, per_second) values ('r', 2);
select pg_temp.add('r') as one, pg_temp.add('r') as two, pg_temp.add('r') as three, pg_temp.add('r') as four
\gset
select is(array[pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three)], '{t,t,f}',
  'two start in a second, one waits');
create function pg_temp.back() returns void language sql as $$
  update pgrab.limit_start set at = at + interval '1 hour';
  update pgrab.limit_use set started_at = started_at + interval '1 hour',
    planned_at = planned_at + interval '1 hour';
  update pgrab.limit_place set at = at + interval '1 hour'
$$;
select pg_temp.back();
update pgrab.task set due_at = null, line = 'r', version = version + 1 where id = :three;
update pgrab.limit_use set waits = true where key = 'r' and no > 0;
select pg_temp.tick();
select is((select t.due_at < clock_timestamp() + interval '3 s' from pgrab.task t where t.id = :three), true,
  'a clock that steps back keeps nobody in line');
select is(pg_temp.starts(:three), true, 'nor from starting');
insert into pgrab.limit (key, max_running) values ('s', 1);
select pg_temp.add('s') as one, pg_temp.add('s') as two, pg_temp.add('s') as three \gset
select pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three);
select pg_temp.ends(:one, pg_temp.version(:one));
update pgrab.task set due_at = due_at + interval '1 hour' where id = :two;
select pg_temp.back();
select pg_temp.tick();
select is(pg_temp.due(:three), true, 'a place that is kept for somebody in an hour goes to the next');

-- ------------------------------------------------------ into line while another session deletes the limit
select pg_temp.add('s') as four \gset
select pg_temp.starts(:three), pg_temp.starts(:four);
alter table pgrab.limit disable trigger user; -- it saw nobody in line
delete from pgrab.limit;
alter table pgrab.limit enable trigger user;
select is(pgrab_internal.limit_waits(), true, 'tasks wait in line although there is no limit any more');
select pgrab_internal.limit_audit();
select pg_temp.tick();
select is(pg_temp.due(:four), true, 'and are let go');

-- The tick begins behind the key at which its time was over, and comes round.
insert into pgrab.limit (key, max_running) select 'k' || i, 1 from generate_series(1, 3) i;
select count(pg_temp.add('k' || i)) from generate_series(1, 3) i;
update pgrab.task set due_at = null, line = limit_key, version = version + 1 where limit_key like 'k_';
insert into pgrab.limit_use (key, no, waits) select 'k' || i, 1, true from generate_series(1, 3) i;
select results_eq($$select pgrab_internal.limit_lines('k1')$$, array['k2', 'k3'], 'behind a key');
update pgrab.duty set about = 'k1', done_at = 'epoch' where duty = 'limits';
select is(pgrab_internal.limit_tick(), 3::bigint, 'all of them');
select is((select count(*) from pgrab.task t where t.limit_key like 'k_' and t.due_at is not null), 3::bigint,
  'are let go');
select is((select d.about from pgrab.duty d where d.duty = 'limits'), null, 'there was time for all');

select * from finish();
rollback;
