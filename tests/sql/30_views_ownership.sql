-- pgrab.ownership and the counters and warning of pgrab.nodes, of rows made by hand.
begin;
\ir nodes.inc
select plan(38);

create function pg_temp.shape(p_view text) returns text language sql as $$
  select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)
  from pg_attribute a where a.attrelid = ('pgrab.' || p_view)::regclass and a.attnum > 0
$$;
select is(pg_temp.shape('ownership'), 'shard integer, node text, strategy text', 'the columns');
select ok(obj_description('pgrab.ownership'::regclass) is not null, 'the view has a comment');
select is((select count(*) from pg_attribute a where a.attrelid = 'pgrab.ownership'::regclass and a.attnum > 0
      and col_description(a.attrelid, a.attnum) is null), 0::bigint, 'and each column');
select is((select count(*) from pg_attribute a where a.attrelid = 'pgrab.nodes'::regclass and a.attnum > 0
      and col_description(a.attrelid, a.attnum) is null), 0::bigint, 'and those of pgrab.nodes');

select is(
  (select (count(*), count(distinct o.shard), min(o.shard), max(o.shard), count(o.node),
      count(o.strategy))::text
    from pgrab.ownership o),
  '(1024,1024,0,1023,0,0)', 'without nodes: all shards, no owner');

-- Node p_rank of p_count reads every p_count-th shard.
create function pg_temp.shards(p_rank integer, p_count integer) returns bit(1024) language sql as $$
  select string_agg(case when s % p_count = p_rank then '1' else '0' end, '' order by s)::bit(1024)
  from generate_series(0, 1023) s
$$;
create function pg_temp.node(p_name text, p_shards bit(1024), p_strategy text default 'id_hash',
  p_overlapping boolean default false) returns void
language sql as $$
  insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
    started_at, incarnation, shards, overlapping, state, heartbeat_at, claims_attempted, claims_won,
    claims_lost, claims_stolen)
  values (p_name, 'h', 1, '0', p_strategy, 8, '1 s', '10 s', now(), 1, p_shards, p_overlapping,
    'up', statement_timestamp(), 10, 9, 1, 2)
$$;
create function pg_temp.owners() returns text language sql as $$
  select string_agg(format('%s %s', coalesce(o.node, '-'), o.n), ', ' order by o.node)
  from (select o.node, count(*) as n from pgrab.ownership o group by o.node) o
$$;
create function pg_temp.warned() returns text language sql as $$
  select coalesce(string_agg(n.name || ': ' || n.warning, ', ' order by n.name), 'none') from pgrab.nodes n
  where n.warning is not null
$$;

select pg_temp.node('a', pg_temp.shards(0, 2)), pg_temp.node('b', pg_temp.shards(1, 2));
select is(pg_temp.owners(), 'a 512, b 512', 'a settled cluster');
select is((select (o.node, o.strategy)::text from pgrab.ownership o where o.shard = 0), '(a,id_hash)',
  'the leftmost bit is shard 0');
select is((select (o.node, o.strategy)::text from pgrab.ownership o where o.shard = 1023), '(b,id_hash)',
  'the rightmost is shard 1023');
select is(
  (select string_agg((n.name, n.shards, n.attempted, n.won, n.lost, n.stolen, n.warning)::text, ' '
      order by n.name)
    from pgrab.nodes n),
  '(a,512,10,9,1,2,) (b,512,10,9,1,2,)', 'pgrab.nodes counts');

select pg_temp.node('c', null);
select is(pg_temp.owners(), 'a 512, b 512', 'a node that has just started owns nothing yet');
select is((select n.shards from pgrab.nodes n where n.name = 'c'), null, 'and says nothing');
update pgrab.node set shards = pg_temp.shards(2, 3) where name = 'c';
select ok(pg_temp.owners() like '%a, c%' and pg_temp.owners() like '%b, c%', 'two owners are both named');
select is((select count(*) from pgrab.ownership), 1024::bigint, 'in one row');
update pgrab.node n set shards = pg_temp.shards(case n.name when 'a' then 0 when 'b' then 1 else 2 end, 3);
select is(pg_temp.owners(), 'a 342, b 341, c 341', 'settled again');

update pgrab.node set heartbeat_at = statement_timestamp() - interval '2.6 s' where name = 'b';
select is(pg_temp.owners(), 'a 342, b 341, c 341', 'with nothing in hand a node beats half as often');
update pgrab.node set in_hand = 1 where name = 'b';
select is(pg_temp.owners(), 'a 342, c 341, - 341', 'otherwise, who misses two heartbeats owns nothing');
update pgrab.node set in_hand = 0, heartbeat_at = statement_timestamp() - interval '3.6 s' where name = 'b';
select is(pg_temp.owners(), 'a 342, c 341, - 341', 'nor does an idle node after another one');
select is((select n.shards from pgrab.nodes n where n.name = 'b'), 0::bigint, 'pgrab.nodes says so');
select is((select n.state from pgrab.nodes n where n.name = 'b'), 'up', 'but is not dead');
update pgrab.node set heartbeat_at = statement_timestamp() where name = 'b';
update pgrab.node set state = 'draining' where name = 'b';
select is(pg_temp.owners(), 'a 342, c 341, - 341', 'nor who drains');
update pgrab.node set state = 'down' where name = 'b';
select is(pg_temp.owners(), 'a 342, c 341, - 341', 'nor who is down');

-- mixed strategies
select is(pg_temp.warned(), 'none', 'nothing to warn of');
update pgrab.node set strategy = 'weight' where name = 'b';
select is(pg_temp.warned(), 'none', 'nor of a node that is down');
update pgrab.node set state = 'up' where name = 'b';
select is(pg_temp.warned(), 'a: mixed strategies, b: mixed strategies, c: mixed strategies',
  'two strategies at once');
select is((select count(distinct o.strategy) from pgrab.ownership o), 2::bigint,
  'ownership says whose rule it is');
update pgrab.node set strategy = '/opt/a/mine.so' where name <> 'b';
update pgrab.node set strategy = './mine.so' where name = 'b';
select is(pg_temp.warned(), 'none', 'one file in two folders is no mixture');
select is((select distinct n.strategy from pgrab.nodes n), 'mine.so', 'of a file the name');
select is((select distinct o.strategy from pgrab.ownership o), 'mine.so', 'in both views');

-- overlapping strategies
update pgrab.node set strategy = 'default', overlapping = true, shards = pg_temp.shards(0, 1);
select is(pg_temp.owners(), '(first come) 1024', 'all read everything: first come');
select is((select distinct o.strategy from pgrab.ownership o), 'default', 'by default');
update pgrab.node set overlapping = false where name = 'a';
select is(pg_temp.owners(), 'a, b, c 1024', 'a node that means to be the only owner is named');
update pgrab.node set state = 'down' where name <> 'c';
select is(pg_temp.owners(), 'c 1024', 'the only node is no race');
update pgrab.node set strategy = 'labels', state = 'up', overlapping = true, shards = case name
  when 'a' then pg_temp.shards(0, 2) when 'b' then pg_temp.shards(1, 2) else pg_temp.shards(0, 1) end;
select is(pg_temp.owners(), 'a, c 512, b, c 512', 'labels: one node of each group');

-- as pgrab.shard deals
select ok(not exists (select from generate_series(1, 1000) i where pgrab.shard(i) not between 0 and 1023),
  'every task has a row here');
-- 102,400 ids, 100 a shard; by chance the fullest of 1024 has 100 and some 3.5 * sqrt(100).
create function pg_temp.fullest(p_first bigint, p_step bigint) returns bigint language sql as $$
  select max(c)
  from (select count(*) as c from generate_series(0, 102399) i group by pgrab.shard(p_first + i * p_step)) x
$$;
select cmp_ok(pg_temp.fullest(1, 1), '<', 150::bigint, 'sequential ids spread evenly');
select cmp_ok(pg_temp.fullest(-102400, 1), '<', 150::bigint, 'negative ones');
select cmp_ok(pg_temp.fullest(9223372036854775807 - 102400, 1), '<', 150::bigint, 'huge ones');
select cmp_ok(pg_temp.fullest(0, 1::bigint << 30), '<', 150::bigint, 'and ids with a step of a power of two');

select * from finish();
rollback;
