-- What people are told of nodes.
begin;
\ir alert.inc
select plan(16);
set local timezone = 'UTC';

create function pg_temp.down() returns text language sql as $$
  select string_agg((i.node_id, i.since)::text, ' ' order by i.node_id) from pgrab.node_incident i
$$;
select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'its process has died');
select is(pg_temp.told(), null, 'nobody wants to hear of nodes');
select is(pg_temp.down(), '(1,"2026-01-02 03:04:05+00")', 'but that it is down is on record');
select pgrab_internal.node_back(1);
select is(pg_temp.down(), null, 'until it is back');
insert into pgrab.alert (name, events, node_like, template) values
  ('a', '{node_down,node_up}', 'n%', '{"kind": "notify", "command": "a"}'),
  ('b', '{node_down}', 'x%', '{"kind": "notify", "command": "b"}'),
  ('c', '{failed,parked,recovered}', null, '{"kind": "notify", "command": "c"}');
select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'no heartbeat since then'),
  pgrab_internal.node_died(1, '2026-01-02 03:04:06', 'again');
select is(pg_temp.told(), 'a node n1 on h is down: no heartbeat since then',
  'told of once, by who wants to hear of this node');
select pgrab_internal.node_incidents_end();
select is(pg_temp.told(),
  'a node n1 on h is down: no heartbeat since then; '
    'a node n1 on h is back: it was down since 2026-01-02 03:04:05+00',
  'and when it is back, once');
select pgrab_internal.node_back(1);
select is((select count(*) from pgrab.task), 2::bigint, 'not again');
update pgrab.alert set template = '{"kind": "http", "command": "http://localhost/", '
  '"args": {"body": {"key": "{{id}}", "text": "{{task}} {{event}} {{error}}"}}}'
where name = 'a';
select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'it died'), pg_temp.told();
select is((select a.args -> 'body' from pgrab.task a where a.kind = 'http'),
  '{"key": "node-1", "text": "node n1 node_down it died"}', 'one template does for tasks and nodes');
select pgrab_internal.node_back(1);
insert into pgrab.limit (key, max_running) values ('hooks', 1);
update pgrab.alert set template = '{"kind": "noop", "limit_key": "hooks"}' where name = 'a';
delete from pgrab.limit;
set local client_min_messages = error;
select lives_ok($$select pgrab_internal.node_died(1, '2026-01-02 03:04:05', 'it died')$$,
  'a template that cannot work keeps nobody from marking a node down');
select pgrab_internal.notices_tell();
select matches((select i.fault from pgrab.node_incident i), 'limit', 'and says why');
update pgrab.beat set state = 'down' where node_id = 1;
select pgrab_internal.node_incidents_end();
select is((select count(*) from pgrab.node_incident), 1::bigint, 'what is down stays so');
select pgrab.drain('n1');
select is(pg_temp.down(), null, 'until somebody says that it is not expected back');
insert into pgrab.node_incident (node_id, since) values (1, now());
select pgrab.drain('n1');
select is(pg_temp.down(), null, 'also of one that was draining when it died');
update pgrab.beat set state = 'up' where node_id = 1;
insert into pgrab.node_incident (node_id, since) values (1, now());
select pgrab.drain('n1');
select isnt(pg_temp.down(), null, 'of one that is back that is no matter');
update pgrab.beat set state = 'down' where node_id = 1;
delete from pgrab.registration where id = 1;
select pgrab_internal.node_incidents_end();
select is((select count(*) from pgrab.node_incident), 0::bigint, 'until nobody knows the node any more');

-- who is no operator does not hear of nodes
delete from pgrab.task;
delete from pgrab.alert;
delete from pgrab_internal.notice;
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at) values
  ('n2', 'h', 1, '0', 'id_hash', 4, '{noop}', '1 s', '10 s', now(), 12, 'up', now());
\ir ../../src/db/sql/roles.sql
;
update pgrab.cluster set roles = true;
insert into pgrab.alert (name, events, template) values
  ('operator', '{node_down}', '{"kind": "notify", "command": "operator"}'),
  ('plain', '{node_down,failed}', '{"kind": "notify", "command": "plain"}');
create role pgrab_t_plain in role pgrab_kind_notify;
alter table pgrab.alert disable trigger user;
update pgrab.alert set set_by = 'pgrab_t_plain' where name = 'plain';
alter table pgrab.alert enable trigger user;
select pgrab_internal.node_died(n.id, '2026-01-02 03:04:05', 'it died') from pgrab.node n
where n.name = 'n2';
select is(pg_temp.told(), 'operator node n2 on h is down: it died', 'only operators are told of nodes');
insert into pgrab.task (id, kind, name, schedule, max_attempts) overriding system value
values (1, 'noop', 't', '@daily', 1);
update pgrab.task set owner = 'pgrab_t_plain' where id = 1;
delete from pgrab.task where source = 'pgrab.alert';
select pg_temp.ends(1, 'failed');
select matches(pg_temp.told(), '^plain t failed', 'that alert is told of its owner''s own');

select * from finish();
rollback;
