-- What a person does to nodes and to all tasks at once: drain, pause_all, and the consent that a copy needs.
begin;
\ir nodes.inc
select plan(26);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
values ('n1', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 11, 'up', now()),
  ('n2', 'h', 2, '0', 'id_hash', 4, '1 s', '10 s', now(), 12, 'down', now());

-- -------------------------------------------------------------------------------------------------- drain
select throws_ok($$select pgrab.drain('n3')$$, 'P0002', 'there is no node ''n3''');
select throws_ok($$select pgrab.undrain('n3')$$, 'P0002', 'there is no node ''n3''');
select throws_ok('select pgrab.drain(null)', 'P0002', 'there is no node null');
select results_eq($$select name, state from pgrab.drain('n1')$$, $$values ('n1', 'draining')$$,
  'a node is told to drain');
select results_eq($$select name, state from pgrab.drain('n2')$$, $$values ('n2', 'down')$$,
  'also one that is down: it stays so over a restart');
select pgrab.drain('n1');
select is((select string_agg(n.name || ' ' || d.asked_by, ', ' order by n.name)
    from pgrab.drained d join pgrab.node n on n.id = d.node_id),
  format('n1 %s, n2 %1$s', current_user), 'a second time is no second wish');
select pgrab.undrain('n2');
select is((select count(*) from pgrab.drained), 1::bigint, 'undrain takes back one wish');
update pgrab.beat set state = 'draining' where incarnation = 11;
select results_eq($$select name, state from pgrab.undrain('n1')$$, $$values ('n1', 'up')$$,
  'as it will be with its next heartbeat');
select is((select count(*) from pgrab.drained), 0::bigint, 'nobody drains any more');

-- ---------------------------------------------------------------------------------------------- pause_all
insert into pgrab.task (id, kind) overriding system value select n, 'noop' from generate_series(1, 3) n;
update pgrab.task
set version = 7, node_id = 1, incarnation = 11, status = case id when 1 then 'claimed' else 'running' end
where id < 3;
insert into pgrab.hold values (11, 1, '{1,2}');
select is((select p::text from pgrab.pause_all() p), '(t,1)', 'one task had been claimed and not started');
select results_eq('select id, status, version, incarnation from pgrab.task where id < 3 order by 1',
  $$values (1::bigint, 'scheduled', 8::bigint, null::bigint), (2, 'running', 7, 11)$$,
  'it is put back; what runs goes on');
select is((select (c.paused, c.paused_by, c.paused_at <= clock_timestamp())::text from pgrab.cluster c),
  format('(t,%s,t)', current_user), 'it is known who did it');
select is((select p::text from pgrab.pause_all() p), '(f,0)', 'a second time is no news');
select is(pgrab.resume_all(), true, 'resume_all');
select is((select (c.paused, c.paused_by, c.paused_at)::text from pgrab.cluster c), '(f,,)', 'takes it back');
select is(pgrab.resume_all(), false, 'once');

-- ------------------------------------------------------------------------------------- a copy of a database
update pgrab.cluster set system_id = null, database = null;
select is(pgrab_internal.is_copy(), false, 'the first node writes down where this is');
select is((select c.database from pgrab.cluster c),
  (select d.oid::bigint from pg_database d where d.datname = current_database()), 'as it is');
select is(pgrab_internal.is_copy(), false, 'the next one finds it so');
update pgrab.cluster set system_id = system_id + 1;
select is(pgrab_internal.is_copy(), true, 'on another server it is a copy');
select is((select (c.paused, c.paused_by)::text from pgrab.cluster c),
  '(t,"a node, because this database is a copy of another one")', 'in which nothing starts');
select is(pgrab_tool.copied(), true, 'whoever asks');
select throws_ok('select pgrab.resume_all()', '55000', 'this database is a copy of another one');
select is(pgrab.adopt(), true, 'until somebody says that it may');
select is(pgrab_internal.is_copy(), false, 'then it is none');
select is(pgrab.adopt(), false, 'and there is nothing more to say');

select * from finish();
rollback;
