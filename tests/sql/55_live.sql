-- What runs show while they are under way: who may see it, and what is asked of the node.
begin;
\ir nodes.inc
select plan(17);

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
select throws_ok('select pgrab.output(4711)', 'P0002', 'task 4711 does not exist');
select throws_ok('select pgrab.output(null::bigint)', 'P0002', 'task null does not exist');

create role live_reader;
grant live_reader to current_user;
grant usage on schema pgrab to live_reader;
grant select on pgrab.task, pgrab.run to live_reader;
grant execute on all functions in schema pgrab, pgrab_tool, pgrab_internal to live_reader;
delete from pgrab.live_request;
set role live_reader;
select is(pgrab.output('runs'), null, 'who may only read asks, too');
reset role;
select is((select count(*) from pgrab.live_request), 1::bigint, 'and its question stands');

insert into pgrab.live (incarnation, task_id, version) values (4, 1, 1), (5, 1, 1);
select pgrab_internal.live_leave(5);
select results_eq('select l.incarnation from pgrab.live l', 'values (4::bigint)',
  'a dead node takes along only its own');

insert into pgrab.kind (kind, summary, handled) values ('mail', 'x', true);
insert into pgrab.task (id, kind) overriding system value values (70, 'mail'), (72, 'mail');
insert into pgrab.task (id, kind, schedule) overriding system value values (73, 'mail', '@every 1h');
insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, ended, kind, owner, error,
  output)
select r.id, 1, now() - r.ago, now(), 1, r.outcome, r.ended, r.kind, current_user, r.error, r.output
from (values
  (70, '0 s'::interval, 'failed', null, 'mail', 'boom', null),
  (71, '0 s', 'succeeded', 'done', 'mail', null, E'hello\n{"sent": true}\n'),
  (71, '1 s', 'failed', null, 'mail', 'boom', null),
  (72, '0 s', 'failed', null, 'mail', 'boom', null),
  (73, '0 s', 'succeeded', null, 'mail', null, E'7\n'),
  (74, '0 s', 'succeeded', 'done', 'shell', null, E'a text\n'))
  r(id, ago, outcome, ended, kind, error, output);
update pgrab.task set attempt = 1 where id = 70;
update pgrab.task set status = 'parked', due_at = null where id = 72;
select is_empty('select * from pgrab.result(70)', 'tried again: no result yet');
select results_eq('select * from pgrab.result(71)',
  $$values ('succeeded', '{"sent": true}'::jsonb, null::text)$$, 'of a handler, what it returned');
select results_eq('select * from pgrab.result(72)', $$values ('failed', null::jsonb, 'boom')$$, 'parked');
select is((select value from pgrab.result(73)), '7', 'of a schedule, the last fire');
select is((select value from pgrab.result(74)), '"a text\n"', 'what is no JSON is a string');

select * from finish();
rollback;
