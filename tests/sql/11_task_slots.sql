-- slots, and args.limits.memory: what they may be, and what they make of a lane.
begin;
select plan(17);

create function pg_temp.put(p_slots text, p_args jsonb default '{}') returns void language plpgsql as $$
begin
  execute format('insert into pgrab.task (kind, command, args, run_at, slots) '
    'values (''shell'', ''true'', $1, ''2099-01-01'', %s)', p_slots) using p_args;
end $$;
select throws_ok($$select pg_temp.put('0')$$, '22023', 'task slots cannot be ''0''');
select throws_ok($$select pg_temp.put('1001')$$, '22023', 'task slots cannot be ''1001''');
select throws_ok($$select pg_temp.put('-1')$$, '22023', 'task slots cannot be ''-1''');
select lives_ok($$select pg_temp.put('1000')$$, 'a thousand');
select lives_ok($$select pg_temp.put('null')$$, 'null is one');
select results_eq('select slots from pgrab.task order by id', 'values (1000), (1)', 'as they were written');
select results_eq('select slots, memory from pgrab.lane where owner = current_user order by id',
  'values (1000, null::bigint), (1, null)', 'a lane says so');
select is((select length(lane) from pgrab.lane where owner = current_user and slots = 1), 8,
  'what takes one slot is in the lane of all plain tasks');
update pgrab.task set slots = 7 where slots = 1000;
select is((select count(*) from pgrab.lane where slots = 7), 1::bigint,
  'an edit puts a task into another one');
select throws_ok('update pgrab.task set slots = 0 where slots = 7', '22023', 'task slots cannot be ''0''');
select is((select pgrab.definition(id) -> 'slots' from pgrab.task where slots = 7), '7', 'its definition');
select is((select pgrab.definition(id) -> 'slots' from pgrab.task where slots = 1), null, 'without defaults');

-- ------------------------------------------------------------------------------------------------ the memory
select pg_temp.put('1', '{"limits": {"memory": "1.5GB"}}');
select pg_temp.put('2', '{"limits": {"memory": 2097152, "cpu": 2}}');
select pg_temp.put('1', '{"limits": {"cpu": 2}}');
select results_eq('select slots, memory from pgrab.lane where memory is not null order by id',
  'values (1, 1610612736::bigint), (2, 2097152)', 'its lane knows what a task may use');
select is((select count(*) from pgrab.lane where owner = current_user), 5::bigint,
  'other limits make no lane'); -- 1000, 1, 7, and the two above
select is((select array_agg(pgrab_internal.memory_bytes(s)) from unnest(
    '{1048576,1MB," 1 MB","1e6kB",.5GB,"+2 TB",1048576B,0001MB}'::text[]) s),
  '{1048576,1048576,1048576,1024000000,536870912,2199023255552,1048576,1048576}',
  'sizes, as nodes read them');
select is((select array_agg(pgrab_internal.memory_bytes(s)) from unnest(
    array['', '1', '1023kB', '1mb', '1 M B', '-1GB', '1e16', '1e99TB', 'NaN', 'MB', '1MB ', '1GBx',
      repeat('9', 200000)]) s),
  array_fill(null::bigint, array[13]), 'and what they do not');
select is(pgrab_tool.memory_of('noop', '{"limits": {"memory": "1GB"}}'), null, 'of kinds that have limits');

select * from finish();
rollback;
