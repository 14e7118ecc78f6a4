-- What runs show while they are under way: who may see it, and what is asked of the node.
begin;
\ir nodes.inc
select plan(12);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at, kinds) values
  ('n1', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 4, 'up', now(), '{sql,shell}');
insert into pgrab.task (kind, command, name) values ('shell', 'x', 'runs'), ('noop', '', 'waits');
update pgrab.task t set status = 'running', node_id = n.id, incarnation = n.incarnation, attempt = 1,
  started_at = now() from pgrab.node n
where t.name = 'runs';

select is(pgrab.output('runs'), null, 'nothing is known yet');
select results_eq('select r.incarnation, t.name, r.version = t.version
    from pgrab.live_request r join pgrab.task t on t.id = r.task_id',
  $$values (4::bigint, 'runs', true)$$, 'its node is asked');
select is(pgrab.output('runs'), null, 'asked again');
select is((select count(*) from pgrab.live_request), 1::bigint,
  'a second question, while the first waits, is none');
insert into pgrab.live_output (incarnation, task_id, version, total, unbroken, output)
  select t.incarnation, t.id, t.version, 4, 4, E'one\n' from pgrab.task t where t.name = 'runs';
select is(pgrab.output('runs'), E'one\n', 'what its node has written');
update pgrab.live_output set version = version - 1;
select is(pgrab.output('runs'), null, 'not what a run before has printed');
select is(pgrab.output('waits'), null, 'what has not run has printed nothing');
select throws_ok('select pgrab.output(4711)', 'P0002', 'there is no task 4711');
select throws_ok('select pgrab.output(null::bigint)', 'P0002', 'there is no task null');

create role live_reader;
grant live_reader to current_user;
grant usage on schema pgrab to live_reader;
grant select on pgrab.task, pgrab.run to live_reader;
grant execute on all functions in schema pgrab, pgrab_internal to live_reader;
delete from pgrab.live_request;
set role live_reader;
select is(pgrab.output('runs'), null, 'who may only read asks, too');
reset role;
select is((select count(*) from pgrab.live_request), 1::bigint, 'and its question stands');

insert into pgrab.live (incarnation, task_id, version) values (4, 1, 1), (5, 1, 1);
select pgrab_internal.live_leave(5);
select results_eq('select l.incarnation from pgrab.live l', 'values (4::bigint)',
  'a dead node takes along only its own');

select * from finish();
rollback;
