-- Steps: recorded once, under the fence of a run, kept as long as its fire, then in the history.
begin;
select plan(50);
set local timezone = 'UTC';

insert into pgrab.task (id, kind, schedule, max_attempts) overriding system value
select i, 'noop', case when i >= 5 then '@every 1h' end, 2 from generate_series(1, 12) i;

create function pg_temp.run(p_id bigint) returns void language sql as $$
  update pgrab.task set status = 'running', version = version + 1, node_id = 1, incarnation = 11,
    attempt = attempt + 1, claimed_at = now(), started_at = now() where id = p_id
$$;
-- under the fence that the run has now, or beside it
create function pg_temp.step(p_id bigint, p_name text, p_result text, p_beside bigint default 0,
  p_incarnation bigint default 11) returns text
language sql as $$
  select r.state || coalesce(' ' || r.result, '') from pgrab.task t cross join lateral
    pgrab_internal.steps_record(array[t.id], array[t.version + p_beside], array[p_incarnation],
      array[p_name], array[p_result]) r
  where t.id = p_id
$$;
create function pg_temp.finish(p_id bigint, p_outcome text, p_retry_us bigint default null) returns bigint
language sql as $$
  select count(*) from pgrab.task t cross join lateral pgrab_internal.finish(
    jsonb_populate_record(null::pgrab_internal.outcomes, jsonb_build_object('ids', array[t.id],
      'versions', array[t.version], 'incarnations', array[t.incarnation], 'started_us', array[2000],
      'finished_us', array[1000], 'outcomes', array[p_outcome], 'exit_codes', array[0], 'outputs', array[''],
      'truncated', array[false], 'errors', array['why'], 'retries_us', array[p_retry_us])), 1, 'n1') f
  where t.id = p_id
$$;
create function pg_temp.names(p_id bigint) returns text language sql as $$
  select coalesce(t.steps::text, '-') || coalesce(': ' || (
    select string_agg(s.name, ' ' order by s.name) from pgrab.step s
    where s.task_id = t.id and s.fire_at = t.fire_at), '')
  from pgrab.task t where t.id = p_id
$$;
create function pg_temp.noted(p_id bigint) returns text language sql as $$
  select string_agg(coalesce((select string_agg(s ->> 'name', ' ' order by s ->> 'name')
    from jsonb_array_elements(r.steps) s), '-'), ', ' order by r.version)
  from pgrab.run r where r.task_id = p_id
$$;

-- the record
select is(pg_temp.step(1, 'a', '1'), 'lost', 'nothing is recorded of a task that is not running');
select pg_temp.run(1);
select is(pg_temp.step(1, 'a', null), 'none', 'it is asked for, and is not there');
select is(pg_temp.step(1, 'a', '{"id": 7}'), 'recorded {"id": 7}', 'recorded');
select is(pg_temp.step(1, 'a', '8'), 'recorded {"id": 7}', 'the first of a name counts');
select is(pg_temp.step(1, 'a', null), 'recorded {"id": 7}', 'it is asked for, and is there');
select is(pg_temp.step(1, 'b', 'null'), 'recorded null', 'a step that returns nothing');
select is(pg_temp.step(1, 'c', '"\u0000"'), 'bad', 'what jsonb cannot hold');
select is(pg_temp.names(1), '2: a b', 'both are counted');
select is(pg_temp.step(1, 'c', '1', -1), 'lost', 'a run with an older version records nothing');
select is(pg_temp.step(1, 'c', '1', 0, 10), 'lost', 'nor does one of another incarnation');
select is(pg_temp.step(1, 'a', null, -1), 'lost', 'and is told nothing');
select throws_ok($$select pg_temp.step(1, repeat('x', 201), '1')$$, '23514', null, 'a name that is too long');
select is(pg_temp.names(1), '2: a b', 'none of them is there');
select is((select array_agg(r.state order by r.n) from pgrab.task t cross join lateral
    pgrab_internal.steps_record(array[1, 1, 2, 1], array[t.version, t.version, 1, t.version],
      array[11, 11, 11, 11], '{x,x,x,a}', '{1,2,3,4}') r where t.id = 1),
  '{recorded,recorded,lost,recorded}', 'many at once: each has its own answer');
select is(pg_temp.names(1) || (select s.result from pgrab.step s where s.name = 'x'), '3: a b x1',
  'a name that comes twice is one step');

-- a checkpoint
select pg_temp.run(10), pg_temp.step(10, 'checkpoint', '"one"');
select is(pg_temp.step(10, 'checkpoint', '"two"'), 'recorded "two"', 'of a checkpoint the last one counts');
select is(pg_temp.step(10, 'checkpoint', '"old"', -1), 'lost', 'but that of an old run does not');
select is(pg_temp.names(10) || (select result #>> '{}' from pgrab.step where task_id = 10),
  '1: checkpointtwo',
  'it is one step, however many there were');
select is(pgrab_internal.args_for(10, null, 'shell', '{"a": 1}', null, (select fire_at from pgrab.task
  where id = 10)), '{"a": 1}3:env,20:PGRAB_CHECKPOINT=two,',
  'a process finds it in its environment');
select is(pgrab_internal.args_for(10, null, 'exec', '{}', null, (select fire_at from pgrab.task
  where id = 10)), '{}3:env,20:PGRAB_CHECKPOINT=two,', 'also without args');
select pg_temp.finish(10, 'failed');
select is(pg_temp.noted(10), 'checkpoint', 'the history says when the attempt made its last one');

-- the bound
select pg_temp.run(2);
select results_eq($$select r.state, count(*) from pgrab.task t cross join lateral (
    select array_agg(g::text) as names from generate_series(1, 999) g) n cross join lateral
    pgrab_internal.steps_record(array_fill(2::bigint, '{999}'), array_fill(t.version, '{999}'),
      array_fill(11::bigint, '{999}'), n.names, n.names) r where t.id = 2 group by 1$$,
  $$values ('recorded', 999::bigint)$$, 'many at once');
select is((select string_agg(r.state, ' ' order by r.n) from pgrab.task t cross join lateral
    pgrab_internal.steps_record('{2,2,2}', array[t.version, t.version, t.version], '{11,11,11}', '{7,a,b}',
      '{1,1,1}') r where t.id = 2), 'recorded recorded full', 'a fire has at most 1000');
select is((select steps from pgrab.task where id = 2), 1000, 'and they are counted right');
select throws_ok($$select pgrab_internal.step_run(2, t.version, 11, 'new', '')
    from pgrab.task t where t.id = 2$$,
  '54000', 'step ''new'' cannot be recorded: the fire has done 1000 others', 'a sql step says so');

-- as long as the fire
select is(pg_temp.finish(1, 'failed'), 1::bigint, 'the attempt fails');
select is(pg_temp.names(1), '3: a b x', 'its steps stay');
select is(pg_temp.noted(1), 'a b x', 'and the history has them');
select is((select array_agg(k order by k) from pgrab.run r, jsonb_array_elements(r.steps) s,
    jsonb_object_keys(s) k where r.task_id = 1 and s ->> 'name' = 'a'), '{finished_at,name}',
  'name and time, no result');
select pg_temp.run(1);
select is(pg_temp.step(1, 'a', null), 'recorded {"id": 7}', 'the next attempt finds them');
select pg_temp.step(1, 'd', '4');
select pg_temp.finish(1, 'failed');
select is((select status from pgrab.task where id = 1) || ' ' || pg_temp.names(1), 'parked 4: a b d x',
  'parked: a retry will find them, too');
select is(pg_temp.noted(1), 'a b x, d', 'each attempt has its own in the history');
select pgrab.retry(1);
select pg_temp.run(1);
select is(pg_temp.names(1), '4: a b d x', 'it does');
select is(pg_temp.finish(1, 'succeeded'), 1::bigint, 'it succeeds');
select is_empty('select from pgrab.step where task_id = 1', 'the fire is over, and so are its steps');

select pg_temp.run(5), pg_temp.step(5, 'a', '1'), pg_temp.finish(5, 'succeeded');
select is(pg_temp.names(5) || pg_temp.noted(5), '-a', 'the next fire of a schedule begins with none');
select pg_temp.run(5);
select is(pg_temp.step(5, 'a', '2'), 'recorded 2', 'and does them again');
select pg_temp.finish(5, 'not_started');
select is(pg_temp.names(5), '1: a', 'a run that could not begin after all keeps those of the fire');
select pgrab.run_now(5);
select is(pg_temp.names(5), '-', 'run_now() is another fire');

select pg_temp.run(6), pg_temp.step(6, 'a', '1'), pg_temp.finish(6, 'lost');
select is(pg_temp.names(6), '1: a', 'a run that was lost keeps them');
select pgrab.cancel(6);
select is(pg_temp.names(6) || (select count(*) from pgrab.step where task_id = 6), '-0',
  'a fire that was given up does not');
select pg_temp.run(7), pg_temp.step(7, 'a', '1'), pg_temp.finish(7, 'failed');
update pgrab.task set run_at = now() + interval '2 h' where id = 7;
select is(pg_temp.names(7) || (select count(*) from pgrab.step where task_id = 7), '-0',
  'a new run_at is another fire');
select pg_temp.run(8), pg_temp.step(8, 'a', '1');
delete from pgrab.task where id = 8;
select is(pg_temp.noted(8) || (select count(*) from pgrab.step where task_id = 8), 'a0',
  'with a task that is deleted they go into its history');
select pg_temp.run(3), pg_temp.step(3, 'a', '1'), pg_temp.finish(3, 'failed');
select pgrab.delete(3);
select is((select count(*) from pgrab.step where task_id = 3), 0::bigint, 'also between two attempts');
select pg_temp.run(9), pg_temp.step(9, 'a', '1'), pg_temp.finish(9, 'failed');
update pgrab.task set command = 'new' where id = 9;
select is(pg_temp.names(9), '1: a', 'an edit of what it does keeps them');

-- a sql step
select pg_temp.run(4);
select lives_ok($$select pgrab_internal.step_run(4, t.version, 11, 's', E'1|a\n')
    from pgrab.task t where id = 4$$,
  'recorded with the work');
select is((select result from pgrab.step where task_id = 4), '"1|a\n"', 'with its output');
select throws_ok($$select pgrab_internal.step_run(4, t.version - 1, 11, 't', '')
    from pgrab.task t where id = 4$$,
  '40001', 'the run of task 4 is no longer this node''s', 'an old run fails, and its work with it');
select throws_ok($$select pgrab_sql.step(4, t.version, 'guess', 't', '')
    from pgrab.task t where id = 4$$,
  '40001', null, 'so does one without a proof');
select is(pg_temp.names(4), '1: s', 'and nothing is recorded');
select * from finish();
rollback;
