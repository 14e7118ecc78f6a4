-- Tasks as JSON, tokens, and the rule of pgrab.scale().
begin;
select no_plan();

select is((select t.name || ' ' || t.kind || ' ' || t.timeout from
  pgrab.add('{"name": "n", "kind": "noop", "timeout": "90s"}') t), 'n noop 00:01:30', 'add');
select is((select count(*) from pgrab.add('{"key": "c", "kind": "noop", "parents": ["n"]}') t
  where t.status = 'waiting' and t.parent_id is not null), 1::bigint, 'add below a parent');
select is((select count(*)
    from pgrab.add('{"key": "d", "kind": "noop", "parents": ["n", "c"], "run_if": "always"}')),
  1::bigint, 'add below two');
select is((select e.run_if from pgrab.edge e join pgrab.task t on t.id = e.child_id where t.key = 'd'),
  'always', 'the second parent is an edge');
select throws_ok($$select pgrab.add('{"node_id": 1}')$$, '22023', 'node_id is not a column that can be set');
select throws_ok($$select pgrab.add('{"owner": "somebody"}')$$, '22023',
  'owner is not a column that can be set');
select throws_ok($$select pgrab.add('[]')$$, '22023', 'a task is a JSON object with at least one member');
select throws_ok($$select pgrab.add(null)$$, '22023', 'a task is a JSON object with at least one member');
select is(
  (select t.priority from pgrab.edit(pgrab_tool.id_of('n'), '{"priority": 7, "schedule": "@daily"}') t),
  7::smallint, 'edit');
select is((select t.run_at || ' ' || t.due_at
    from pgrab.edit(pgrab_tool.id_of('n'), '{"schedule": "45 3 1 1 *", "timezone": "UTC"}') t),
  (select n.f || ' ' || n.f from pgrab.next_fire('45 3 1 1 *', 'UTC', now()) n(f)), 'with its new time');
select is((select t.schedule from pgrab.edit(pgrab_tool.id_of('n'), '{"schedule": null}') t), null,
  'null sets null');
select throws_ok($$select pgrab.edit(0, '{"priority": 1}')$$, 'P0002', 'there is no live task 0');
select throws_ok($$select pgrab.edit(1, '{"version": 1}')$$, '22023',
  'version is not a column that can be set');

create temp table given as select pgrab.token_add('mine') as token;
select matches((select token from given), '^pgrab_[0-9a-f]{64}$', 'a token');
select is((select count(*) from pgrab.token t, given g where t.hash = sha256(convert_to(g.token, 'UTF8'))
      and t.role = current_user and t.expires_at > now() + '89 days'), 1::bigint,
  'its hash is kept, for the role');
select is((select count(*) from pgrab.token t, given g
    where to_jsonb(t)::text like '%' || substr(g.token, 7, 20) || '%'), 0::bigint, 'the token itself is not');
select throws_ok($$select pgrab.token_add('x', 'pg_read_server_files')$$, '42501',
  'you may not act as role pg_read_server_files');

select is(pgrab_internal.scale_workers(0, 0, 0, 1, 60), 0::bigint, 'nothing to do, nobody needed');
select is(pgrab_internal.scale_workers(1, 0, 0, 0.001, 60), 1::bigint, 'something is due');
select is(pgrab_internal.scale_workers(0, 0, 8, 1, 60), 10::bigint, 'busy 80 % of the time');
select is(pgrab_internal.scale_workers(600, 0, 0, 1, 60), 10::bigint, 'a backlog is worked off in time');
select is(pgrab_internal.scale_workers(0, 7, 0, 1, 60), 7::bigint, 'what runs keeps its worker');

-- A day of ten-second steps: whoever follows the answer, one step late, with at least one worker.  The load
-- is 2 a second of 0.5 s, a burst of 20,000 at noon, 20 a second in the afternoon.
create function pg_temp.simulate(out worst_queue numeric, out burst_cleared_s numeric, out most bigint,
  out afternoon_queue numeric, out evening bigint)
language plpgsql as $$
declare
  v_queue numeric := 0;
  v_workers bigint := 1;
  v_wanted bigint := 1;
  v_done numeric;
  v_rate numeric := 0;
  v_in numeric;
begin
  most := 0;
  worst_queue := 0;
  afternoon_queue := 0;
  for s in 0..8639 loop
    v_in := case when s = 4320 then 20000 when s between 5000 and 6500 then 200 else 20 end;
    v_queue := v_queue + v_in;
    v_done := least(v_queue, v_workers * 10 / 0.5);
    v_queue := v_queue - v_done;
    v_rate := 0.8 * v_rate + 0.2 * v_done / 10;
    v_workers := greatest(v_wanted, 1);
    v_wanted := pgrab_internal.scale_workers(v_queue::bigint, least(v_workers, ceil(v_done / 20))::bigint,
      v_rate::float8, 0.5, 60);
    most := greatest(most, v_wanted);
    worst_queue := case when s < 4320 then greatest(worst_queue, v_queue) else worst_queue end;
    burst_cleared_s := coalesce(burst_cleared_s, case when s > 4320 and v_queue = 0 then (s - 4320) * 10 end);
    afternoon_queue := case when s between 5060 and 6500 then greatest(afternoon_queue, v_queue)
      else afternoon_queue end;
  end loop;
  evening := v_wanted;
end $$;
select is((select worst_queue from pg_temp.simulate()), 0.0, 'a steady load has no queue');
select cmp_ok((select burst_cleared_s from pg_temp.simulate()), '<=', 240.0,
  'the burst is over within four minutes');
select cmp_ok((select most from pg_temp.simulate()), '<=', 400::bigint, 'and has not asked for everything');
select is((select afternoon_queue from pg_temp.simulate()), 0.0,
  'ten times the load has no queue after ten minutes');
select cmp_ok((select evening from pg_temp.simulate()), '<=', 3::bigint,
  'and in the evening it is as in the morning');

insert into pgrab.task (kind) select 'noop' from generate_series(1, 120);
select is((select (workers, nodes, due)::text from pgrab.scale()), '(2,1,120)',
  'without runs a second each is assumed');
select cmp_ok((select workers from pgrab.scale('10 s')), '>=', 12::bigint, 'the sooner, the more');

-- ----------------------------------------------------------------------------------- scale, of one pool
insert into pgrab.task (kind, command, require)
select k, 'true', r from (values
  ('notify', '{"gpu": "a"}'::jsonb), ('shell', '{"gpu": "a"}'),
  ('notify', '{"gpu": "a", "zone": "eu"}')) v(k, r),
  generate_series(1, 120);
select results_eq(
  $$select p.kinds, p.labels, s.workers, s.due
    from (values (null::text[], null::jsonb), ('{shell}', null), ('{sql}', null), (null, '{}'),
      (null, '{"gpu": "a"}'),
      ('{notify}', '{"gpu": "a"}'), (null, '{"gpu": "a", "zone": "eu"}'),
      (null, '{"gpu": "b"}')) p(kinds, labels)
      cross join pgrab.scale('1 minute', p.kinds, p.labels) s$$,
  $$values (null::text[], null::jsonb, 8::bigint, 480::bigint), ('{shell}', null, 2, 120),
    ('{sql}', null, 0, 0),
    (null, '{}', 2, 120), (null, '{"gpu": "a"}', 4, 240), ('{notify}', '{"gpu": "a"}', 2, 120),
    (null, '{"gpu": "a", "zone": "eu"}', 6, 360), (null, '{"gpu": "b"}', 0, 0)$$,
  'each pool asks for what only such nodes can run');
insert into pgrab.run (task_id, version, started_at, finished_at, created_at, attempt, outcome, ended, kind,
  owner, definition)
select n, 1, now() - interval '11 s', now() - interval '1 s', now(), 1, 'succeeded', 'done', 'sql', 'me',
  case when n <= 1012 then '{"require": {"gpu": "b"}}'::jsonb else '{}' end
from generate_series(1001, 1018) n;
select results_eq(
  $$select s.workers, s.runs_per_second from (values ('{"gpu": "b"}'::jsonb), ('{}')) p(labels)
      cross join pgrab.scale('1 minute', '{sql}', p.labels) s$$,
  $$values (3::bigint, 0.2::float8), (2, 0.1)$$,
  'and for what ran of late: ten seconds, every five and every ten');
select is(pgrab_tool.labels_of('zone=eu,x=a=b'), '{"x": "a=b", "zone": "eu"}', 'labels as in the settings');
select is(pgrab_tool.labels_of('none'), '{}', 'none');
select is(pgrab_tool.labels_of(null), null, 'any');
select throws_ok($$select pgrab_tool.labels_of('zone')$$, '22023', 'labels cannot be ''zone''');

select * from finish();
rollback;
