-- A node as others see it: what it registered, its last heartbeat, and the weight that a person has given it.
begin;
select plan(17);

insert into pgrab.registration (id, name, host, pid, pgrab_version, strategy, weight, slots, heartbeat_every,
  dead_after, started_at)
overriding system value values (1, 'n1', 'h', 1, '0', 'weight', 2, 4, '1 s', '10 s', now());
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
update pgrab.beat set heartbeat_at = clock_timestamp() - interval '11 s' where beat = 7;
select is(pg_temp.n1(), '12 up 2 f', 'who has been silent for its dead_after is not live');
update pgrab.beat set heartbeat_at = clock_timestamp(), state = 'down' where beat = 7;
select is(pg_temp.n1(), '12 down 2 f', 'nor who is down');

-- ------------------------------------------------------------------------------------------------- weight
update pgrab.node set weight = 3.5 where name = 'n1';
select is(pg_temp.n1(), '12 down 3.5 f', 'a person may give it another weight');
update pgrab.node set weight = 0 where name = 'n1';
select is(pg_temp.n1(), '12 down 0 f', 'also none at all');
insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state) values (1, 8, 13, now(), 'down');
select is(pg_temp.n1(), '13 down 2 f', 'after a restart its own counts again');
update pgrab.node set weight = 5 where name = 'n1';
select is(pg_temp.n1(), '13 down 5 f', 'until it is given another one');
update pgrab.node set weight = null where name = 'n1';
select is(pg_temp.n1(), '13 down 2 f', 'which may be taken back');

-- --------------------------------------------------------------------------------------- what is refused
select throws_ok('update pgrab.node set weight = -1', '22023', 'weight of node ''n1'' cannot be -1');
select throws_ok($$update pgrab.node set weight = 'infinity'$$, '22023',
  'weight of node ''n1'' cannot be Infinity');
select throws_ok('update pgrab.node set slots = 1000', '22023',
  'only the weight of node ''n1'' can be changed');
select throws_ok($$update pgrab.node set weight = 1, state = 'up'$$, '22023',
  'only the weight of node ''n1'' can be changed');

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
