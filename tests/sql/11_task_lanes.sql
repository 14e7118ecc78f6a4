-- Lanes: what stands for them in the due index, and how many an owner may have.
begin;
select plan(26);

-- ------------------------------------------------------------------------------------- what stands for them
select is_empty($$select attname from pg_attribute
  where attrelid = 'pgrab.task'::regclass and attgenerated <> ''$$,
  'no column is generated: from PostgreSQL 16 on every claim would read its expression');
create temporary table task as
select o, k, jsonb_build_object('zone', r) - case r when '' then 'zone' else '' end as r, d, p::smallint as p
from unnest('{a,a2,"a 2",b\\c}'::text[]) o, unnest('{noop,sql,exec,"2x"}'::text[]) k,
  unnest(array['', '1', '\', '\\']) r, unnest('{at_least_once,at_most_once}'::text[]) d,
  unnest('{-32768,-1,0,1,9,10,99,100,32767}'::integer[]) p;
create function pg_temp.lane_of(
  p_owner text, p_kind text, p_require jsonb, p_delivery text, p_priority smallint,
  p_share_key text default null, p_prefer jsonb default null, p_failover interval default null,
  p_slots integer default 1, p_args jsonb default '{}')
returns bytea language sql immutable as $$
  select pgrab_tool.lane_of(jsonb_populate_record(null::pgrab_internal.task, jsonb_strip_nulls(
    jsonb_build_object('owner', p_owner, 'kind', p_kind, 'require', p_require, 'delivery', p_delivery,
      'priority', p_priority, 'share_key', p_share_key, 'prefer', p_prefer, 'failover_after', p_failover,
      'slots', p_slots, 'args', p_args))))
$$;
create temporary view lane as select t.*, pg_temp.lane_of(t.o, t.k, t.r, t.d, t.p) as lane from task t;
select is((select count(distinct lane) from lane), (select count(distinct (o, k, r, d)) * 5 from task),
  'a lane for each owner, kind, require and delivery, and five bands of priority');
select is((select array_agg(distinct pgrab_internal.band(p) order by pgrab_internal.band(p)) from task),
  '{1,2,3,4,5}', 'which have numbers');
select is((select array_agg(pgrab_internal.band(p::smallint) order by n)
    from unnest('{-32768,-1,0,1,9,10,99,100,32767}'::integer[]) with ordinality x(p, n)),
  '{1,1,2,3,3,4,4,5,5}', 'from the lowest to the highest');
select is((select count(*) from (select lane from lane group by lane
    having count(distinct (o, k, r, d)) > 1) x), 0::bigint, 'no lane holds two of them');
select is((select count(distinct pg_temp.lane_of('a', 'noop', jsonb_build_object('n', n::text),
    'at_least_once', 0::smallint)) from generate_series(1, 200000) n),
  200000::bigint, 'nor do 200,000 that somebody tries');
select is((select array_agg(distinct length(lane) order by length(lane)) from lane), '{8,24}',
  'what anybody can choose has a longer one than plain tasks');
select is((select count(distinct pg_temp.lane_of('a', 'noop', '{}', 'at_least_once', 0::smallint, s, p, f))
    from (values (null::text, null::jsonb, null::interval), ('x', null, null), ('y', null, null),
      (null, '{"a": "b"}', null), (null, '{"a": "c"}', null), (null, '{"a": "b"}', '30 s'),
      (null, '{"a": "b"}', '61 s'), ('x', '{"a": "b"}', null)) v(s, p, f)),
  6::bigint, 'what takes turns has its own, whatever the key; and what prefers other nodes, or later');

select is((select count(distinct pg_temp.lane_of('a', k, '{}', 'at_least_once', 0::smallint, s,
      p_slots => n, p_args => jsonb_build_object('limits', jsonb_build_object('memory', m))))
    from unnest('{shell,exec}'::text[]) k, unnest('{null,x}'::text[]) s, unnest('{1,2,21}'::integer[]) n,
      unnest('{null,1MB,11MB,2 memory 1MB," slots 2","\\\\"}'::text[]) m),
  72::bigint, 'and what takes so many slots, or may use so much memory');
select is((select count(distinct pg_temp.lane_of('a', 'noop', '{}', 'at_least_once', 0::smallint,
      p_args => a)) from unnest(array['{}', '{"limits": {"memory": "1MB"}}', '{"limits": {}}']::jsonb[]) a),
  1::bigint, 'where a kind has limits');

-- --------------------------------------------------------------------------------------------- the directory
create function pg_temp.lanes() returns bigint language sql as
  $$ select count(*) from pgrab.lane l where l.owner = current_user $$;
create function pg_temp.put(p_from integer, p_to integer) returns void language sql as $$
  insert into pgrab.task (kind, require, run_at) select 'noop', jsonb_build_object('n', n::text), '2099-01-01'
  from generate_series(p_from, p_to) n $$;
select pg_temp.put(1, 5);
insert into pgrab.task (kind, priority) select 'noop', n from unnest('{0,0,1,9}'::integer[]) n;
select is((select array_agg(l.band || ' ' || l.require::text order by l.band, l.require::text)
    from pgrab.lane l where l.lane in (
      select pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) from pgrab.task t)),
  '{"2 {\"n\": \"1\"}","2 {\"n\": \"2\"}","2 {\"n\": \"3\"}","2 {\"n\": \"4\"}",'
  '"2 {\"n\": \"5\"}","2 {}","3 {}"}', 'each lane is written down once');

-- ------------------------------------------------------------------------------------------------- the bound
update pgrab.cluster set owner_lanes = 10;
select pg_temp.put(6, 8);
select is(pg_temp.lanes(), 10::bigint, 'as many as there may be');
select pg_temp.put(1, 8);
select is(pg_temp.lanes(), 10::bigint, 'tasks in known lanes count nothing');
select throws_ok('select pg_temp.put(9, 9)', '54000',
  format('tasks of %s would stand in more than 10 lanes', current_user), 'one more is refused');
select throws_ok($$insert into pgrab.task (kind, require) select 'noop', jsonb_build_object('n', n::text)
  from generate_series(100, 12388) n$$, '54000', null, 'and so are twelve thousand');
select throws_ok($$update pgrab.task set require = '{"n": "9"}' 
  where id = (select max(id) from pgrab.task where require = '{"n": "8"}')$$, '54000', null,
  'an edit is no way around it');
select lives_ok($$insert into pgrab.task (kind) values ('noop')$$, 'what has a lane goes on');
delete from pgrab.task where require = '{"n": "7"}' or require = '{"n": "8"}';
select lives_ok('select pg_temp.put(9, 10)', 'empty ones make room');
select is(pg_temp.lanes(), 10::bigint, 'and only as many');
select is((select count(*) from pgrab.lane where require in ('{"n": "7"}', '{"n": "8"}')), 0::bigint,
  'they are gone');
select throws_ok('select pg_temp.put(7, 7)', '54000', null, 'no more room than that');
update pgrab.task set paused = true where require = '{"n": "9"}';
select throws_ok('select pg_temp.put(7, 7)', '54000', null, 'a lane of what cannot run now is not empty');
delete from pgrab.lane where require = '{"n": "1"}';
update pgrab.cluster set owner_lanes = 2;
select is(pgrab_internal.lanes_mend(), 1::bigint, 'a lane that tasks stand in is added whatever the bound');

-- ------------------------------------------------------------------------------------------ empty ones leave
update pgrab.cluster set owner_lanes = 5000;
delete from pgrab.task;
select pg_temp.put(1, 2000);
delete from pgrab.task;
select cmp_ok(pgrab_internal.lanes_leave(7), '<=', 40::bigint, 'a slice at a time');
select cmp_ok((select sum(pgrab_internal.lanes_leave(n)) from generate_series(0, 63) n), '>=', 1960::numeric,
  'the others in turn');
select is(pg_temp.lanes(), 0::bigint, 'after 64 of them all are gone');

select * from finish();
rollback;
