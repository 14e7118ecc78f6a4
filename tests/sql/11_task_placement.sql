-- share_key, prefer, failover_after: what they may be, and what they make of a lane.
begin;
select plan(14);

create function pg_temp.put(p_columns text, p_values text) returns void language plpgsql as $$
begin
  execute format('insert into pgrab.task (kind, run_at, %s) values (''noop'', ''2099-01-01'', %s)',
    p_columns, p_values);
end $$;
create function pg_temp.refused(p_columns text, p_values text, p_says text) returns text language sql as $$
  select throws_ok(format('select pg_temp.put(%L, %L)', p_columns, p_values), '22023', p_says)
$$;
select pg_temp.refused('prefer', '''[]''', 'task prefer cannot be ''[]''');
select pg_temp.refused('prefer', '''{"a": 1}''', 'task prefer cannot be ''{"a": 1}''');
select pg_temp.refused('failover_after', '''1 s''', 'task failover_after cannot be ''00:00:01''');
select pg_temp.refused('prefer, failover_after', '''{"a": "b"}'', ''-1 s''',
  'task failover_after cannot be ''-00:00:01''');
select pg_temp.refused('share_key', '''''', 'task share_key cannot be ''''');
select pg_temp.refused('share_key', 'repeat(''x'', 201)',
  format('task share_key cannot be ''%s''', repeat('x', 200)));
select pg_temp.refused('prefer, schedule, failover_after', '''{"a": "b"}'', ''@daily'', ''1 min''',
  'task failover_after cannot be ''00:01:00''');
select lives_ok($$select pg_temp.put('share_key', 'repeat(''x'', 200)')$$, '200 bytes are a key');
select lives_ok($$select pg_temp.put('prefer, failover_after', '''{"a": "b"}'', ''5 s''')$$, 'a preference');
select lives_ok($$select pg_temp.put('prefer', '''{"a": "b"}''')$$, 'and one with the usual failover');
select results_eq(
  $$select prefer::text, failover, shared from pgrab.lane where owner = current_user order by id$$,
  $$values (null, null::bigint, true), ('{"a": "b"}', 5000000, false), ('{"a": "b"}', 30000000, false)$$,
  'a lane says so');
update pgrab.task set share_key = null where share_key is not null;
select is((select count(*) from pgrab.lane where not shared and prefer is null), 1::bigint,
  'an edit puts a task into another one');
update pgrab.task set failover_after = '7 s' where failover_after = '5 s';
select is((select count(*) from pgrab.lane where failover = 7000000), 1::bigint, 'whatever is edited of it');


-- A session writes numbers as it likes; the lane of a task is the same in all.
update pgrab.task set failover_after = '61.5 s' where failover_after = '7 s';
set local extra_float_digits = -15;
select is((select array_agg(pgrab_tool.lane_of(row(t.*)::pgrab_internal.task)) from pgrab.task t
    where failover_after = '61.5 s'),
  (select array_agg(l.lane) from pgrab.lane l where failover = 61500000),
  'a session that writes few digits does not move a task to another lane');

select * from finish();
rollback;
