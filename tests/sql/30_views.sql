-- The views: their shape, which others rely on, and what they say of rows made by hand.
begin;
\ir nodes.inc
select plan(82);
set local timezone = 'UTC';

-- ------------------------------------------------------------------------------------------------- the shape
create function pg_temp.shape(p_view text) returns text language sql as $$
  select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum)
  from pg_attribute a where a.attrelid = ('pgrab.' || p_view)::regclass and a.attnum > 0
$$;
select is(pg_temp.shape('overview'),
  'nodes_up bigint, due bigint, running bigint, parked bigint, late bigint, oldest_late interval, '
    'runs_1m bigint, failed_1m bigint, runs_1h bigint, failed_1h bigint, failing bigint, overdue bigint',
  'overview');
select is(pg_temp.shape('tasks'), 'id bigint, name text, kind text, status text, attempt integer, '
    'due_at timestamp with time zone, node text, finished_at timestamp with time zone, usual interval',
  'tasks');
select is(pg_temp.shape('due'), 'id bigint, name text, kind text, priority smallint, status text, '
    'attempt integer, due_at timestamp with time zone, overdue interval, node text', 'due');
select is(pg_temp.shape('running'), 'id bigint, name text, kind text, attempt integer, node text, '
    'running_for interval, timeout interval, progress real, progress_text text, stopping interval',
  'running');
select is(pg_temp.shape('late'),
  'id bigint, name text, kind text, due_at timestamp with time zone, late_by interval, why text', 'late');
select is(pg_temp.shape('parked'), 'id bigint, name text, kind text, attempt integer, outcome text, '
    'parked_at timestamp with time zone, error text', 'parked');
select is(pg_temp.shape('history'), 'task_id bigint, name text, kind text, attempt integer, outcome text, '
    'node text, finished_at timestamp with time zone, seconds numeric, waited numeric, error text',
  'history');
select is(pg_temp.shape('nodes'), 'name text, state text, strategy text, busy text, heartbeat_age interval, '
    'shards bigint, attempted bigint, won bigint, lost bigint, stolen bigint, warning text, '
    'overridden text', 'nodes');

-- ------------------------------------------------------------------------------------------ an empty cluster
select is((select o::text from pgrab.overview o), '(0,0,0,0,0,,0,0,0,0,0,0)',
  'an overview of nothing is one row of noughts');
select is_empty('select * from pgrab.tasks', 'no tasks');
select is_empty('select * from pgrab.nodes', 'no nodes');

-- ----------------------------------------------------------------------------------------- rows made by hand
-- Nodes: up, up but silent, draining, down.
create function pg_temp.node(p_name text, p_id bigint, p_state text, p_age interval, p_running integer,
  p_slots integer, p_kinds text[], p_labels jsonb) returns void
language sql as $$
  insert into pgrab.node (id, name, host, pid, pgrab_version, strategy, labels, kinds, slots, heartbeat_every,
    dead_after, started_at, incarnation, state, heartbeat_at, running, claims_won, claims_lost, runs_failed)
  overriding system value
  values (p_id, p_name, 'h', 1, '0', 'id_hash', p_labels, p_kinds, p_slots, '1 s', '10 s', now(), p_id * 100,
    p_state, statement_timestamp() - p_age, p_running, 70, 3, 2)
$$;
-- Puts a task where a node would have put it.
create function pg_temp.put(p_id bigint, p_status text, p_ago interval, p_node bigint default null,
  p_attempt integer default 0, p_error text default null) returns void
language sql as $$
  update pgrab.task t set status = p_status,
    due_at = case when p_status <> 'parked' then statement_timestamp() - p_ago end,
    node_id = p_node, incarnation = p_node * 100, attempt = p_attempt,
    started_at = case p_status when 'running' then statement_timestamp() - p_ago end,
    last_error = p_error, last_outcome = case when p_error is not null then 'failed' end,
    last_finished_at = case when p_error is not null then now() end
  where t.id = p_id;
  insert into pgrab.hold select p_node * 100, p_id, array[p_id] where p_node is not null
  on conflict do nothing
$$;
create function pg_temp.why(p_id bigint) returns text language sql as $$ select pgrab.why(p_id) $$;

insert into pgrab.task (id, kind, command, name, run_at) overriding system value
select n, 'sql', 'select 1', 'task ' || n, now() + interval '1 hour' from generate_series(1, 30) n;
select pg_temp.put(1, 'scheduled', '70 s');
select is(
  (select (t.id, t.name, t.kind, t.status, t.attempt, t.due_at, t.node)::text from pgrab.tasks t
    where t.id = 2),
  (2, 'task 2', 'sql', 'scheduled', 0, date_trunc('second', now() + interval '1 hour'), null::text)::text,
  'tasks shows what is to come');
select is((select count(*) from pgrab.due), 1::bigint, 'due shows what is due, and nothing that is not');
select is(
  (select (d.id, d.name, d.kind, d.priority, d.status, d.attempt, date_trunc('minute', d.overdue),
      d.node)::text
    from pgrab.due d),
  '(1,"task 1",sql,0,scheduled,0,00:01:00,)', 'due: how long already');
select is((select (l.id, l.name, l.kind, date_trunc('minute', l.late_by), l.why)::text from pgrab.late l),
  '(1,"task 1",sql,00:01:00,"no node is up")', 'late: no node is up');
select pg_temp.put(1, 'scheduled', '0 s');
select is_empty('select * from pgrab.late', 'what is due is not late at once');
select is((select count(*) from pgrab.due), 1::bigint, 'but due');

-- why, one reason after the other
select pg_temp.put(1, 'scheduled', '1 minute');
select pg_temp.node('gone', 1, 'down', '1 s', 0, 8, '{sql}', '{}');
select is(pg_temp.why(1), 'no node is up', 'a node that is down does not count');
select pg_temp.node('silent', 2, 'up', '5 s', 0, 8, '{sql}', '{}');
select is(pg_temp.why(1), 'no node is up; silent: silent', 'nor one that is silent');
select pg_temp.node('drains', 3, 'draining', '0 s', 0, 8, '{sql}', '{}');
select is(pg_temp.why(1), 'all nodes are draining', 'a node that drains takes nothing new');
select pg_temp.node('n1', 4, 'up', '0 s', 1, 8, '{noop,notify}', '{"zone": "eu"}');
select is(pg_temp.why(1), 'the nodes that run kind sql are draining', 'nobody else allows the kind');
update pgrab.node set kinds = '{noop}' where name = 'drains';
select is(pg_temp.why(1), 'no live node runs kind sql', 'nobody allows the kind');
update pgrab.task set require = '{"zone": "us"}' where id = 1;
select is(pg_temp.why(1), 'no live node runs kind sql', 'the kind comes before the labels');
update pgrab.node set kinds = '{sql,noop}' where name = 'n1';
select is(pg_temp.why(1), 'no live node has labels {"zone": "us"}', 'nobody has the labels');
select pg_temp.node('n2', 5, 'up', '0 s', 0, 4, '{noop}', '{"zone": "us", "disk": "ssd"}');
select is(pg_temp.why(1), 'no live node runs kind sql and has labels {"zone": "us"}',
  'one has the kind, another the labels');
update pgrab.task set require = '{"zone": "eu"}' where id = 1;
select pg_temp.put(1, 'scheduled', '1 minute');
select is(pg_temp.why(1), 'about to be taken', 'there is a node with room for it');
update pgrab.node set running = 8 where name = 'n1';
select is(pg_temp.why(1), 'all nodes busy', 'the only one that may has no room');
select pg_temp.put(1, 'claimed', '1 minute', 4);
select is(pg_temp.why(1), 'claimed by n1', 'claimed');
select is((select (d.status, d.node)::text from pgrab.due d), '(claimed,n1)',
  'due says by whom it is claimed');
select pg_temp.put(1, 'claimed', '1 minute', 1);
select is(pg_temp.why(1), 'claimed by gone, which has died', 'claimed by a node that is down');
select pg_temp.put(1, 'claimed', '1 minute', 2);
select is(pg_temp.why(1), 'claimed by silent, which is silent', 'claimed by a node that is silent');
update pgrab.task set incarnation = 1 where id = 1;
select is(pg_temp.why(1), 'claimed by silent, which has died', 'claimed by an incarnation that is no more');
select pg_temp.put(1, 'claimed', '1 minute', 77);
select is(pg_temp.why(1), 'claimed by a node that is gone', 'claimed by a node nobody knows');
select is((select d.node from pgrab.due d), null, 'due shows it all the same');
select pg_temp.put(1, 'running', '70 s', 4, 1);
select is(pg_temp.why(1), null, 'what runs needs no reason');
select pg_temp.put(2, 'scheduled', '-90 s');
select alike(pg_temp.why(2), 'due in 00:01:%', 'not due yet');
select pg_temp.put(2, 'scheduled', '-90 s', null, 2, 'boom');
select alike(pg_temp.why(2), 'attempt 3 of 3 is due in 00:01:%', 'waiting for its next try');
update pgrab.task set paused = true where id = 2;
select is(pg_temp.why(2), 'paused', 'paused');
select pg_temp.put(3, 'parked', '0', null, 3, 'boom');
select is(pg_temp.why(3), 'parked after 3 of 3 attempts: boom', 'parked');

-- running, parked
select is(
  (select (r.id, r.name, r.kind, r.attempt, r.node, date_trunc('minute', r.running_for), r.timeout,
      r.progress, r.stopping)::text
    from pgrab.running r),
  '(1,"task 1",sql,1,n1,00:01:00,01:00:00,,)', 'running: what, where and for how long');
insert into pgrab.live (incarnation, task_id, version, progress, progress_text, stopping_at)
select t.incarnation, 1, t.version, 42.5, E'copying\nfiles', now() - interval '5 s' from pgrab.task t
where t.id = 1;
select is((select (r.progress, r.progress_text, r.stopping >= '5 s')::text from pgrab.running r),
  '(42.5,"copying files",t)', 'how far it is, and that it is being stopped');
select matches((select n.warning from pgrab.nodes n where n.name = 'n1'),
  '^stopping 1 run, the first for 00:00:(0[5-9]|[1-5])', 'and so does its node');
update pgrab.live set version = version + 1;
select is((select (r.progress, r.stopping)::text from pgrab.running r), '(,)',
  'what another run has shown is not shown');
delete from pgrab.live;
select is_empty('select * from pgrab.due', 'what runs is not due');
select is_empty('select * from pgrab.late', 'and not late');
select is((select (p.id, p.name, p.kind, p.attempt, p.outcome, p.parked_at, p.error)::text
    from pgrab.parked p), (3, 'task 3', 'sql', 3, 'failed', date_trunc('second', now()), 'boom')::text,
  'parked: what and why');
update pgrab.task set last_error = E'one\ntwo\033[31m\t' || repeat('x', 100) where id = 3;
select is((select p.error from pgrab.parked p), 'one two [31m ' || repeat('x', 20) || '...',
  'an error is one line of 36 characters, without control characters');
select is((select count(*) from pgrab.parked p where p.id = 2), 0::bigint, 'paused is not parked');

-- ----------------------------------------------------------------------------------------------- the history
create function pg_temp.run(p_id bigint, p_attempt integer, p_outcome text, p_ended text, p_ago interval,
  p_error text default null) returns void
language sql as $$
  insert into pgrab.run (task_id, attempt, version, outcome, ended, kind, owner, name, node, created_at,
    fire_at, started_at, finished_at, error)
  values (p_id, p_attempt, 1, p_outcome, p_ended, 'sql', 'o', 'old ' || p_id, 'n1', now(),
    now() - interval '1 hour', statement_timestamp() - p_ago - interval '1234567 us',
    statement_timestamp() - p_ago, p_error)
$$;
select pg_temp.run(100, 1, 'failed', null, '3 s', 'boom');
select pg_temp.run(100, 2, 'succeeded', 'done', '1 s');
select pg_temp.run(101, 1, 'cancelled', 'cancelled', '10 s');
select pg_temp.run(102, 1, 'lost', null, '10 minutes', E'the node\nthat ran it died or lost its lease');
select pg_temp.run(103, 0, 'missed', 'skipped', '20 s');
select pg_temp.run(104, 1, 'timed_out', null, '2 hours');
select is((select string_agg(h.task_id || '/' || h.attempt, ' ') from pgrab.history h),
  '100/2 100/1 101/1 103/0 102/1 104/1', 'history comes newest first');
select is((select (h.task_id, h.name, h.attempt, h.outcome, h.node, h.seconds, h.error)::text
    from pgrab.history h where h.task_id = 100 and h.attempt = 1),
  '(100,"old 100",1,failed,n1,1.235,boom)', 'one attempt, one row');
select is((select h.error from pgrab.history h where h.task_id = 102), 'the node that ran it died o...',
  'the error is one line of 30 characters');
select is((select count(*) from pgrab.history h where h.finished_at > now() - interval '1 minute'), 4::bigint,
  'it can be asked by time');
select is((select (t.name, t.kind, t.status, t.attempt, t.due_at, t.node, t.finished_at)::text
    from pgrab.tasks t where t.id = 100),
  (select (r.name, 'sql', 'done', 2, null::timestamptz, 'n1', date_trunc('second', r.finished_at))::text
    from pgrab.run r where r.task_id = 100 and r.attempt = 2), 'tasks shows what is done');
select is((select string_agg(t.status, ' ' order by t.id) from pgrab.tasks t where t.id > 100),
  'cancelled skipped', 'tasks shows each ended task once, and none that only tried');
select is((select count(*) from pgrab.tasks), 33::bigint, 'live and ended');

-- ----------------------------------------------------------------------------------------------------- nodes
update pgrab.node set running = 1 where name = 'n1';
select is((select (n.name, n.state, n.strategy, n.busy, n.won, n.lost)::text from pgrab.nodes n
    where n.name = 'n1'), '(n1,up,id_hash,1/8,70,3)', 'a node');
select is((select string_agg(n.name || ' ' || n.state, ', ' order by n.name) from pgrab.nodes n),
  'drains draining, gone down, n1 up, n2 up, silent silent',
  'states of nodes; who is not heard of is silent');
select ok((select n.heartbeat_age from pgrab.nodes n where n.name = 'silent') between '5 s' and '1 minute',
  'age of the heartbeat');
update pgrab.node set heartbeat_at = statement_timestamp() + interval '1 minute' where name = 'n2';
select is((select n.heartbeat_age from pgrab.nodes n where n.name = 'n2'), interval '0',
  'a heartbeat that comes while we look is not negative');

-- -------------------------------------------------------------------------------------------------- overview
select pg_temp.put(4, 'scheduled', '310 s'), pg_temp.put(5, 'scheduled', '0 s'),
  pg_temp.put(6, 'claimed', '10 s', 4);
select is((select (o.nodes_up, o.due, o.running, o.parked, o.late, date_trunc('minute', o.oldest_late))::text
    from pgrab.overview o), '(2,3,1,1,2,00:05:00)', 'overview: now');
select is((select (o.runs_1m, o.failed_1m, o.runs_1h, o.failed_1h)::text from pgrab.overview o), '(3,1,4,2)',
  'overview: runs; missed ones are none, cancelled ones no failures');

-- --------------------------------------------------------------------------------- they fit into 120 columns
-- As psql draws them: | between columns, a blank on both sides.
insert into pgrab.task (id, kind, command, name, run_at) overriding system value
select 1234560 + n, 'notify', 'c', 'daily report', now() from generate_series(1, 3) n;
select pg_temp.put(1234561, 'claimed', '10 minutes 1 s', 5),
  pg_temp.put(1234562, 'running', '10 minutes', 5, 2),
  pg_temp.put(1234563, 'parked', '0', null, 3, repeat('long ', 20));
select pg_temp.run(1234564, 2, 'succeeded', 'done', '1 s');
create function pg_temp.width(p_view text) returns integer language plpgsql as $$
declare
  v_sum integer := -1;
  v_max integer;
  v_column text;
begin
  for v_column in
    select a.attname from pg_attribute a
    where a.attrelid = ('pgrab.' || p_view)::regclass and a.attnum > 0
  loop
    execute format('select greatest(length(%L), max(length(v.%I::text))) from pgrab.%I v',
      v_column, v_column, p_view) into v_max;
    v_sum := v_sum + v_max + 3;
  end loop;
  return v_sum;
end $$;
delete from pgrab.run where error is not null;
update pgrab.task set expect_within = '1 day', created_at = now() - interval '30 hours' where id = 1234563;
select cmp_ok(pg_temp.width(v), '<=', 120, v || ' fits into 120 columns')
from unnest('{overview,tasks,due,running,late,parked,history,nodes,failing,overdue}'::text[]) v;

-- ------------------------------------------------------------------------------------- and are cheap to read
create function pg_temp.plan(p_query text) returns text language plpgsql as $$
declare
  v_line text;
  v_all text := '';
begin
  for v_line in execute 'explain (costs off) ' || p_query loop
    v_all := v_all || v_line || E'\n';
  end loop;
  return v_all;
end $$;
insert into pgrab.task (id, kind, run_at) overriding system value
select 2000000 + n, 'noop', now() + n * interval '1 s' from generate_series(1, 20000) n;
analyze pgrab.task;
select alike(pg_temp.plan('select * from pgrab_internal.due_heads(null)'), '%Index Scan%task_due_idx%',
  'what is due is found in its index');
select alike(pg_temp.plan('select * from pgrab.due'), '%task_pkey%due_ids%', 'due reads what is found so');
select alike(pg_temp.plan('select * from pgrab.running'), '%on hold%Index Scan%task_pkey%',
  'running reads what nodes hold');
select alike(pg_temp.plan('select * from pgrab.late'), '%task_pkey%due_ids%',
  'late reads the index of what is due');
select unalike(pg_temp.plan('select * from pgrab.overview'), '%Seq Scan on task%',
  'overview does not read the table of tasks');
select alike(pg_temp.plan('select * from pgrab.parked'), '%task_idle_idx%',
  'parked reads the index of what cannot run');
select alike(pg_temp.plan('select * from pgrab.tasks where id = 17'), '%Index Cond: (id = 17)%',
  'one task is found by its id');
insert into pgrab.run (task_id, attempt, version, outcome, ended, kind, owner, created_at, finished_at)
select 2000000 + n, 1, 1, 'succeeded', 'done', 'noop', 'o', now(), now() - n * interval '1 ms'
from generate_series(1, 20000) n;
analyze pgrab.run;
select unalike(pg_temp.plan('select * from pgrab.history limit 20'), '%->  Sort%',
  'the newest runs are read without sorting');
select alike(pg_temp.plan('select * from pgrab.history where task_id = 17'), '%Index Cond: (task_id = 17)%',
  'the runs of one task are found by its id');
select unalike(pg_temp.plan($$select * from pgrab.history
    where finished_at >= '2000-01-01' and finished_at < '2000-01-02'$$),
  '%run_2%', 'a condition on finished_at picks the partitions');

update pgrab.beat b
set gauges = array_fill(null::bigint, array[9]) || '{50,-1,6}', fitness_why = 'success 20%'
from pgrab.registration r where r.id = b.node_id and r.name = 'n2';
select is((select (n.cpu_free, n.memory_free, n.fitness, v.warning)::text
    from pgrab.node n join pgrab.nodes v using (name) where n.name = 'n2'),
  '(50,,6,"fitness 6%: success 20%")', 'a node that its strategy finds unfit, and why');
select * from finish();
rollback;
