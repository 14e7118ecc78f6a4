-- What takes more room than a node has, or than it has now: the gates, pgrab.late, who is able.
begin;
\ir nodes.inc
select plan(25);

insert into pgrab.node (id, name, host, pid, pgrab_version, strategy, kinds, slots, heartbeat_every,
  dead_after, started_at, incarnation, state, heartbeat_at, running)
select n.id, n.name, 'h', 1, '0', 'id_hash', '{shell,noop,http,mail}', n.slots, '1 s', '10 s', now(),
  n.id * 100, 'up', statement_timestamp(), 0
from (values (1, 'few', 4), (2, 'many', 8)) n(id, name, slots);
update pgrab.registration r set room = jsonb_build_object('', r.slots, 'http', 64, 'mail', 3),
  memory = r.slots * 1073741824::bigint;
create function pg_temp.beat(p_node bigint, p_crews jsonb, p_used bigint) returns void language sql as $$
  update pgrab.beat b set crews = p_crews, gauges =
    array[0, (p_crews -> '' ->> 0)::bigint, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, p_used] where b.node_id = p_node
$$;
select pg_temp.beat(n, jsonb_build_object('', array[0, n * 4], 'http', array[60, 64], 'pool', array[1, 3]), 0)
from generate_series(1, 2) n;
insert into pgrab.pool (node_id, name, command, kinds, processes, up, slots, lost)
select n, 'pool', 'x', '{"mail": null}', 3, 3, 3, 0 from generate_series(1, 2) n;

create function pg_temp.add(p_kind text, p_slots integer, p_memory text default null) returns bigint
language plpgsql as $$
declare
  v_id bigint;
begin
  insert into pgrab.kind (kind, summary) values (p_kind, '') on conflict do nothing;
  insert into pgrab.task (kind, command, args, slots, run_at)
  values (p_kind, case p_kind when 'http' then 'http://localhost/' when 'noop' then '' else 'true' end,
    case when p_memory is null then '{}'
      else jsonb_build_object('limits', jsonb_build_object('memory', p_memory)) end,
    p_slots, now() - interval '1 min')
  returning id into v_id;
  return v_id;
end $$;
create function pg_temp.gate(p_id bigint, p_gate text) returns text language sql as $$
  select e.verdict || ': ' || e.detail from pgrab.explain(p_id) e where e.gate = p_gate
$$;
create function pg_temp.why(p_id bigint) returns text language sql as $$
  select l.why from pgrab.late l where l.id = p_id
$$;

select pg_temp.add('noop', 5) as five, pg_temp.add('noop', 9) as nine, pg_temp.add('shell', 1, '6GB') as six,
  pg_temp.add('shell', 1, '9GB') as huge, pg_temp.add('http', 5) as http, pg_temp.add('http', 65) as https,
  pg_temp.add('mail', 3) as mail, pg_temp.add('mail', 4) as mails \gset
select is(pg_temp.gate(:five, 'node few'),
  'blocked: It has 4 slots for kind noop, and the task takes 5.', 'too few workers');
select is(pg_temp.gate(:five, 'node many'), 'ok: Free: 0 of 8 in use.', 'and enough');
select is(pg_temp.gate(:five, 'nodes'), null, 'one is enough');
select is(pg_temp.why(:five), 'about to be taken', 'nothing keeps it');
select is(pg_temp.gate(:nine, 'nodes'),
  'blocked: No node that is up and could run it is large enough. few: It has 4 slots for kind noop, and the '
  'task takes 9; many: It has 8 slots for kind noop, and the task takes 9. Start one '
  'with more workers or memory, or change the task''s slots or args.limits.', 'none has enough');
select is(pg_temp.why(:nine), 'no node that could run it is large enough: it takes 9 slots', 'in a list');
select is(pg_temp.gate(:six, 'node few'),
  'blocked: Its memory is 4096 MB, and the task may use 6144 MB (args.limits.memory).', 'too little memory');
select is(pg_temp.gate(:six, 'node many'), 'ok: Free: 0 of 8 in use.', 'and enough');
select is(pg_temp.why(:huge),
  'no node that could run it is large enough: it takes 1 slot and 9216 MB of memory',
  'none has enough');
select is(pg_temp.gate(:http, 'node few'), 'waits: Busy: 60 of 64, and the task takes 5.', 'places of http');
select is(pg_temp.why(:http), 'no node has 5 slots free', 'in a list');
select is(pg_temp.gate(:https, 'node few'), 'blocked: It has 64 slots for kind http, and the task takes 65.',
  'which are others than the workers');
select is(pg_temp.gate(:mail, 'node few'), 'waits: Busy: 1 of 3, and the task takes 3.', 'those of a pool');
select is(pg_temp.gate(:mails, 'node few'), 'blocked: It has 3 slots for kind mail, and the task takes 4.',
  'and more than it has');
select pg_temp.beat(2, '{"": [4, 8]}', 3221225472);
select is(pg_temp.gate(:five, 'node many'), 'waits: Busy: 4 of 8, and the task takes 5.', 'too few are free');
select is(pg_temp.gate(:six, 'node many'),
  'waits: 3072 MB of its memory of 8192 MB are in use, and the task may use 6144 MB.',
  'and too little memory');
select is(pg_temp.why(:six), 'no node has 1 slot and 6144 MB of memory free', 'in a list');
select is((select array_agg(f.node order by f.task_id) from pgrab.forecast('1 hour') f
    where f.task_id in (:five, :nine, :six, :huge)),
  '{many,"(no node can)",many,"(no node can)"}', 'a forecast knows as well');
select is(pgrab_internal.has_room('{}', null, 'noop', 1000, 1), true, 'a node that has not said is asked');

-- ------------------------------------------------------------- the reason that is true, of more than one
update pgrab.registration set labels = '{"site": "hq"}', min_priority = 10 where name = 'many';
select is(pg_temp.why(:nine), 'no node that could run it is large enough: it takes 9 slots',
  'one that is reserved, too, would be too small for any priority');
select is(pg_temp.why(:five), 'all nodes that could run it take only priority >= 10', 'one is large enough');
update pgrab.task set slots = 1, prefer = '{"site": "hq"}', failover_after = '1 hour' where id = :five;
select is(pg_temp.why(:five), 'no node that it prefers can take it: node many: It takes only tasks of '
  'priority 10 and above (its min_priority); others take it when it is 01:00:00 late',
  'it is up, and not for it');
update pgrab.registration set min_priority = null where name = 'many';
update pgrab.beat b set state = 'draining' where b.node_id = 2;
update pgrab.task set prefer = null, failover_after = null, require = '{"site": "hq"}' where id = :five;
select is(pg_temp.why(:five), 'all nodes that could run it are draining', 'its labels are there');
select matches(pg_temp.gate(:five, 'nodes'), 'Undrain one');
update pgrab.task set require = '{"site": "br"}' where id = :five;
select is(pg_temp.why(:five), 'no live node has labels {"site": "br"}', 'these are not');

select * from finish();
rollback;
