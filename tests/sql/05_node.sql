-- A node as others see it: what it registered, its last heartbeat, and what operators say instead.
begin;
select plan(37);

insert into pgrab.registration (id, name, host, pid, pgrab_version, strategy, weight, labels, slots,
  heartbeat_every, dead_after, started_at)
overriding system value
values (1, 'n1', 'h', 1, '0', 'weight', 2, '{"zone": "eu"}', 4, '1 s', '10 s', now());
create function pg_temp.n1() returns text language sql as $$
  select concat_ws(' ', n.incarnation, n.state, n.weight, n.live) from pgrab.node n where n.name = 'n1'
$$;

-- --------------------------------------------------------------------------------------------- heartbeats
select is(pg_temp.n1(), '0 down 2 f', 'a node that has registered and not beaten is down');
insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state, gauges, counts) values
  (1, 7, 12, clock_timestamp(), 'up', '{5,3}', '{1,2,3,4,5,6,7,8,9,10,11,12}'),
  (1, 6, 11, clock_timestamp(), 'draining', '{1,1}', '{}');
select is(pg_temp.n1(), '12 up 2 t', 'the heartbeat with the highest number counts');
select is((select n.running || ' ' || n.beat from pgrab.node n), '3 7', 'with its gauges');
select is((select array[claims_attempted, claims_won, claims_lost, claims_stolen, runs_started,
    runs_succeeded, runs_failed, stale_finishes, fences, recovered, keepers_lost, log_dropped]
    from pgrab.node),
  '{1,2,3,4,5,6,7,8,9,10,11,12}'::bigint[], 'and its counters');
update pgrab.beat set heartbeat_at = clock_timestamp() - interval '3.5 s' where beat = 7;
select is(pg_temp.n1(), '12 up 2 t', 'one beat may be late, also of a node that beats half as often');
update pgrab.beat set heartbeat_at = clock_timestamp() - interval '4.1 s' where beat = 7;
select is(pg_temp.n1(), '12 up 2 f', 'who has been silent for three heartbeats and a second is not live');
update pgrab.registration set dead_after = '3 s';
update pgrab.beat set heartbeat_at = clock_timestamp() - interval '3.1 s' where beat = 7;
select is(pg_temp.n1(), '12 up 2 f', 'nor for its dead_after');
update pgrab.registration set dead_after = '10 s';
update pgrab.beat set heartbeat_at = clock_timestamp(), state = 'down' where beat = 7;
select is(pg_temp.n1(), '12 down 2 f', 'nor who is down');

-- ------------------------------------------------------------------------------- what operators say instead
create function pg_temp.said() returns text language sql as $$
  select concat_ws(' ', n.weight, n.labels, n.draining, n.own) from pgrab.node n where n.name = 'n1'
$$;
select is(pg_temp.said(), '2 {"zone": "eu"} f', 'at first what the node itself says counts');
update pgrab.node set weight = 3.5 where name = 'n1';
select is(pg_temp.said(), '3.5 {"zone": "eu"} f {"weight": 2}', 'an operator may give it another weight');
update pgrab.node set labels = '{"disk": "ssd"}' where name = 'n1';
select is(pg_temp.said(), '3.5 {"disk": "ssd"} f {"labels": {"zone": "eu"}, "weight": 2}',
  'and other labels');
select is((select n.overridden from pgrab.nodes n),
  'weight 3.5 for 2, labels {"disk": "ssd"} for {"zone": "eu"}',
  'which is shown');
insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state) values (1, 8, 13, now(), 'down');
update pgrab.registration set weight = 7, labels = '{"zone": "us"}', started_at = now();
select is(pg_temp.said(), '3.5 {"disk": "ssd"} f {"labels": {"zone": "us"}, "weight": 7}',
  'neither a restart nor its file changes that');
update pgrab.node set weight = 0, labels = '{}' where name = 'n1';
select is(pg_temp.said(), '0 {} f {"labels": {"zone": "us"}, "weight": 7}', 'none at all is something, too');
update pgrab.node set weight = null where name = 'n1';
select is(pg_temp.said(), '7 {} f {"labels": {"zone": "us"}}', 'null gives back its own, of one');
update pgrab.node set labels = null where name = 'n1';
select is(pg_temp.said(), '7 {"zone": "us"} f', 'and of the other');
select is((select count(*) from pgrab.override), 0::bigint, 'nothing is left of it');
select is((select string_agg(concat_ws(' ', e.what, e.role, e.task, e.detail), '; ' order by e.at)
    from pgrab.event e where e.task = 'n1' and e.detail ? 'weight'),
  format('node %1$s n1 {"weight": ["2", "3.5"]}; '
    'node %1$s n1 {"labels": ["{\"disk\": \"ssd\"}", "{}"], "weight": ["3.5", "0"]}; '
    'node %1$s n1 {"weight": ["0", null]}', current_user), 'it is recorded who did what');
update pgrab.node set draining = true where name = 'n1';
select is(pg_temp.said(), '7 {"zone": "us"} t', 'it may be drained here');
select is((select count(*) from pgrab.drained d where d.asked_by = current_user), 1::bigint,
  'which is what pgrab.drain() does');
select is((select draining from pgrab.undrain('n1')), false, 'pgrab.undrain() ends it');
select is(pg_temp.said(), '7 {"zone": "us"} f', 'here, too');
select is((select draining from pgrab.drain('n1')), true, 'pgrab.drain() is seen here');
update pgrab.node set draining = null where name = 'n1';
select is(pg_temp.said(), '7 {"zone": "us"} f', 'as null does');
select is((select string_agg(e.what, ' ' order by e.at) from pgrab.event e where e.what like '%drain'),
  'drain undrain drain undrain', 'recorded alike');

-- --------------------------------------------------------------------------------------- what is refused
select throws_ok('update pgrab.node set weight = -1', '22023', 'weight of node ''n1'' cannot be -1');
select throws_ok($$update pgrab.node set weight = 'infinity'$$, '22023',
  'weight of node ''n1'' cannot be Infinity');
select throws_ok($$update pgrab.node set weight = 1000001$$, '22023',
  'weight of node ''n1'' cannot be 1000001');
select throws_ok($$update pgrab.node set weight = 'nan'$$, '22023', 'weight of node ''n1'' cannot be NaN');
select throws_ok($$update pgrab.node set labels = '["eu"]'$$, '22023',
  'labels of node ''n1'' are no object of texts: ["eu"]');
select throws_ok($$update pgrab.node set labels = '{"zone": 1}'$$, '22023',
  'labels of node ''n1'' are no object of texts: {"zone": 1}');
select throws_ok($$update pgrab.node set labels = 'null'$$, '22023',
  'labels of node ''n1'' are no object of texts: null');
select throws_ok($$update pgrab.node set labels = jsonb_build_object('a', repeat('x', 4000))$$, '54000',
  'labels of node ''n1'' have more than 4000 bytes');
select throws_ok('update pgrab.node set slots = 1000', '22023',
  'only weight, labels and draining of node ''n1'' can be changed');
select throws_ok($$update pgrab.node set weight = 1, state = 'up'$$, '22023',
  'only weight, labels and draining of node ''n1'' can be changed');

-- ------------------------------------------------------------------------------- who carries out a kind
select results_eq(
  $$select k.kind, pgrab_internal.crew_of(n, k.kind)
    from (values ('http'), ('shell')) k(kind)
      cross join jsonb_populate_record(null::pgrab.node,
        '{"crews": {"": [1, 8], "http": [3, 64], "shell": [0, 2]}}') n$$,
  $$values ('http', 'http'), ('shell', '')$$, 'http has a crew of its own, whatever pools are called');
select is(pgrab_internal.crew_of(jsonb_populate_record(null::pgrab.node, '{"crews": {"": [1, 8]}}'), 'http'),
  '', 'where the node says so');

select * from finish();
rollback;
