-- What is due and what is in hand, compared with what a plain query says; and which node runs what.
begin;
select plan(36);

-- ---------------------------------------------------------------------------------- which node runs what
select is(pgrab_internal.runs(kinds, owners, bounds, kind, owner), want, about)
from (values
  (1, '{noop,sql}'::text[], '{a}'::text[], '{}'::jsonb, 'noop', 'b', true, 'a kind that it runs'),
  (2, '{noop,sql}', '{a}', '{}', 'shell', 'a', false, 'a kind that it does not run'),
  (3, '{noop,sql}', '{a}', '{}', 'sql', 'a', true, 'sql of an owner for whom it can log in'),
  (4, '{noop,sql}', '{a}', '{}', 'sql', 'b', false, 'but not of another one'),
  (5, '{noop,sql}', '{a}', '{"b": ["sql"]}', 'noop', 'b', false, 'an owner for whom it runs fewer kinds'),
  (6, '{noop,sql}', '{a}', '{"b": ["noop"]}', 'noop', 'b', true, 'and those that it runs'),
  (7, '{noop,sql}', '{a}', '{"b": []}', 'noop', 'a', true, 'which is nothing to the others')
  ) x(n, kinds, owners, bounds, kind, owner, want, about)
order by n;

-- --------------------------------------------------------------------------------------------------- nothing
select is_empty('select * from pgrab_internal.due_heads(null)', 'nothing stands anywhere');
select is_empty($$select * from pgrab_tool.due_first(now(), '{scheduled}', 10)$$, 'nothing is first');
select is_empty('select * from pgrab_tool.in_hand()', 'and nothing in hand');

-- ------------------------------------------------------------------------- three thousand, in many lanes
-- One for each second of fifty minutes, in no order; a tenth is paused.
insert into pgrab.task (id, kind, command, priority, require, paused, run_at) overriding system value
select n, case n % 3 when 0 then 'noop' when 1 then 'sql' else 'shell' end,
  case n % 3 when 0 then '' else 'x' end, n % 5, case n % 7 when 0 then '{"zone": "eu"}' else '{}' end::jsonb,
  n % 10 = 0, now() + (n * 7919 % 3001 - 1500) * interval '1 s'
from generate_series(1, 3000) n;
update pgrab.task set status = 'claimed', node_id = 1, incarnation = 11 where id % 50 = 1;
analyze pgrab.task;
create temporary view head as
select pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) as lane,
  pgrab.shard(t.id) as shard
from pgrab.task t where t.due_at is not null;
select is_empty('select lane, shard from head except select lane, shard from pgrab_internal.due_heads(null)',
  'each head');
select is((select count(*) from pgrab_internal.due_heads(null)),
  (select count(distinct (lane, shard)) from pgrab_internal.due_heads(null)), 'is found once');
select set_eq('select lane, shard from pgrab_internal.due_heads(current_user)',
  'select lane, shard from pgrab_internal.due_heads(null)', 'and by its owner');
select set_eq($$select h.lane, h.shard from pgrab_internal.due_heads(null) h where h.lane in (
    select x.lane from head x group by 1 having count(*) < 256)$$,
  $$select lane, shard from head
    where lane in (select lane from head group by 1 having count(*) < 256)$$,
  'of a lane with few tasks no others');
select is_empty('select lane, shard from pgrab_internal.due_heads(''pg_monitor'')', 'nobody else has any');
select is((
  select count(*) from pgrab_tool.due_until(now(), '{claimed}', 1)),
  (select count(distinct (pgrab_tool.lane_of(row(t.*)::pgrab_internal.task),
      pgrab.shard(t.id))) from pgrab.task t where t.due_at <= now() and t.status = 'claimed'),
  'the first of each head that is held');
select set_eq('select id from pgrab_tool.due_until(now())', 'select id from pgrab.task where due_at <= now()',
  'what is due, held or not');
select set_eq($$select id from pgrab_tool.due_until(now() + '10 minutes')$$,
  $$select id from pgrab.task where due_at <= now() + '10 minutes'$$, 'or will be');
select results_eq(
  format($$select id from pgrab_tool.due_first(now(), '{scheduled}', %s)$$, n),
  format($$select id from pgrab.task where due_at <= now() and status = 'scheduled'
    order by due_at limit %s$$, n), format('the first %s, in order', n))
from unnest(array[1, 2, 10, 300, 3000]) n;
select results_eq($$select id from pgrab_tool.due_first(now(), '{claimed}', 20)$$,
  $$select id from pgrab.task where due_at <= now() and status = 'claimed' order by due_at limit 20$$,
  'of those that are held');
select set_eq(format('select pgrab_tool.of_kind(%L)', k),
  format('select id from pgrab.task where kind = %L', k),
  format('the live tasks of kind %s, due or not', k))
from unnest('{noop,sql}'::text[]) k;
select is_empty($$select pgrab_tool.of_kind('http')$$, 'a kind of which there are none');

-- ------------------------------------------------------------------ a lane with many, of one moment
create function pg_temp.pages(p_query text) returns bigint language plpgsql as $$
declare
  v_plan json;
begin
  execute 'explain (analyze, buffers, format json) ' || p_query into v_plan;
  return (v_plan -> 0 -> 'Plan' ->> 'Shared Hit Blocks')::bigint;
end $$;
insert into pgrab.task (id, kind, priority, run_at) overriding system value
select 10000 + n, 'noop', 1000, now() - interval '1 day' from generate_series(1, 3000) n;
insert into pgrab.task (id, kind, priority, run_at) overriding system value
select 20000 + n, 'noop', 1000, now() + n * interval '1 s' from generate_series(1, 3000) n;
analyze pgrab.task;
create function pg_temp.lane() returns bytea language sql stable as $$
  select pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) from pgrab.task t where t.id = 10001
$$;
select is((
  select count(*) from pgrab_internal.due_heads(null)
  where lane = pg_temp.lane()), 1024::bigint,
  'of a lane with many tasks each shard is named');
select cmp_ok(pg_temp.pages('select * from pgrab_internal.due_heads(null) where lane = pg_temp.lane()'),
  '<', 4000::bigint,
  'without a probe for each');
select set_eq('select id from pgrab_tool.due_until(now())', 'select id from pgrab.task where due_at <= now()',
  'of which nothing is left out');
select is((
  select array[count(distinct d.id), count(*) filter (where d.due_at = now() - interval '1 day')]
  from pgrab_tool.due_first(now(), '{scheduled}', n) d), array[n, least(n, 3000)]::bigint[],
  format('the first %s where many are of one moment', n))
from unnest(array[8, 1000, 3100]) n;
select results_eq('select due, late, oldest from pgrab_internal.due_counts(null)',
  $$select count(*), count(*) filter (where due_at <= statement_timestamp() - '2 s'::interval), min(due_at)
    from pgrab.task where due_at <= statement_timestamp() and status
      in ('scheduled', 'claimed')$$, 'how many are due');
select results_eq($$select due from pgrab_internal.due_counts('pg_monitor')$$, 'values (0::bigint)',
  'of nobody else');

-- --------------------------------------------------------------------------------------------------- in hand
insert into pgrab.hold values (11, 1, '{1,51,2}'), (11, 2, '{51,4711}'), (12, 1, '{101}');
select results_eq('select id from pgrab_tool.in_hand() order by 1', 'values (1::bigint), (51), (101)',
  'what the claims name and nodes still hold, once each');

select * from finish();
rollback;
