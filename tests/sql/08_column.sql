-- The catalogue of the columns of a task, and what is made from it.
begin;
select plan(8);

select is((select string_agg(a.attname, ' ' order by a.attname) from pg_attribute a
    where a.attrelid = 'pgrab.task'::regclass and a.attnum > 0 and not a.attisdropped
      and a.attname not in (select c.name from pgrab_internal.task_column c)),
  'id owner', 'every column is in it but these');
select is((select string_agg(c.name, ' ' order by c.name) from pgrab_internal.task_column c
    where c.system and c.name = any (pgrab_internal.written())), null, 'users write nothing of the others');
select ok('{name,kind,command,args,schedule,keep,stall_after}'::text[] <@ pgrab_internal.written(),
  'and these, for example');
select is(pgrab_internal.apply_defaults() - '{name,schedule,starts_at,ends_at,max_runs,calendar,limit_key,
    on_failure,expect_within,slow_after,stall_after,keep,wait_for,wait_timeout,signal_by,
    traceparent,share_key,prefer,failover_after}'::text[],
  '{"kind": "sql", "command": "", "args": {}, "require": {}, "timezone": "UTC", "misfire": "once",
    "misfire_after": "00:01:00", "misfire_limit": 100, "slots": 1, "jitter": "00:00:00", "priority": 0,
    "timeout": "01:00:00", "max_attempts": 3, "backoff": "00:00:05", "backoff_max": "01:00:00",
    "delivery": "at_least_once", "run_if": "success", "on_closed": "skip",
    "preemptible": false}', 'the defaults as JSON');

-- A row in which null is written for all that has a default, and one that says what is not for it to say.
create function pg_temp.put(p_key text, p_row jsonb) returns void language plpgsql as $$
begin
  execute format('insert into pgrab.task (key, kind, run_at, %s) select %L, ''noop'', ''2099-01-01'', %1$s '
      'from jsonb_populate_record(null::pgrab_internal.task, $1)',
    (select string_agg(quote_ident(k), ', ') from jsonb_object_keys(p_row) k), p_key) using p_row;
end $$;
insert into pgrab.task (key, kind, run_at) values ('plain', 'noop', '2099-01-01');
select lives_ok($$
  select pg_temp.put('null', (select jsonb_object_agg(c.name, null) from pgrab_internal.task_column c
    where c.filled and not c.system and c.name not in ('kind', 'run_at')))
  $$, 'null for all that has a default');
select lives_ok($$
  select pg_temp.put('system', (
    select jsonb_object_agg(c.name, coalesce(v.value, '7')) from pgrab_internal.task_column c
    left join jsonb_each('{"status": "parked", "settled": true}') v on v.key = c.name where c.system
      and c.name not like '%\_at') || (
    select jsonb_object_agg(c.name, '2001-01-01') from pgrab_internal.task_column c
    where c.system and c.name like '%\_at'))
  $$, 'a value for all that is the system''s');
create function pg_temp.row_of(p_key text) returns jsonb language sql as $$
  select to_jsonb(t) - '{id,key}'::text[] from pgrab.task t where t.key = p_key
$$;
select is(pg_temp.row_of('null'), pg_temp.row_of('plain'), 'null means the default');
select is(pg_temp.row_of('system'), pg_temp.row_of('plain'), 'and what is the system''s begins as it wants');

select * from finish();
rollback;
