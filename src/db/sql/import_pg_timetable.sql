-- The chains of pg_timetable, as tasks: the first of a chain has the schedule, each other one is the child of
-- the one before it.  Serves: pgrab import pg_timetable; runs in the database that these tables are in, which
-- need not have a schema pgrab.  $1 time zone.
-- A task with several rows of parameters runs once for each, as in pg_timetable.
with step as (
  select t.chain_id, row_number() over (partition by t.chain_id order by t.task_order, t.task_id, p.order_id)
      as n, t.task_id, nullif(t.task_name, '') as name, t.kind::text as kind, t.command, p.value,
    coalesce(t.ignore_error, false) as careless, nullif(t.run_as, '') as role, coalesce(t.timeout, 0) as ms,
    case when t.kind::text = 'BUILTIN' and lower(t.command) <> 'noop'
        then format('task %s is the builtin %s', t.task_id, t.command)
      when nullif(t.database_connection, '') is not null
        then format('task %s runs in another database', t.task_id)
      when p.value is not null and json_typeof(p.value::json) <> 'array'
        then format('the parameters of task %s are not an array', t.task_id) end as fault
  from timetable.task t left join timetable.parameter p on p.task_id = t.task_id),
chain as (
  select c.*, case when c.run_at is null then '* * * * *'
      when c.run_at::text ~* '^@(every|after) ' then substring(lower(c.run_at::text) from '^@[a-z]+') || ' '
        || extract(epoch from substring(c.run_at::text from 7)::interval)::float8 || 's'
      else btrim(c.run_at::text) end as fires
  from timetable.chain c),
task as (
  select s.chain_id, s.n, s.fault, s.role, json_strip_nulls(json_build_object(
    'key', c.chain_name || case when s.n > 1 then '/' || s.n else '' end, 'name', s.name,
    'kind', case s.kind when 'PROGRAM' then 'exec' when 'BUILTIN' then 'noop' else 'sql' end,
    'command', case when s.kind <> 'BUILTIN' then s.command end,
    'args', case when s.value is not null and s.fault is null and s.kind <> 'BUILTIN'
      then json_build_object(case s.kind when 'PROGRAM' then 'argv' else 'params' end, s.value) end,
    'schedule', case when s.n = 1 then c.fires end, 'timezone', case when s.n = 1 then $1::text end,
    'paused', case when s.n = 1 and not coalesce(c.live, false) then true end,
    'max_runs', case when s.n = 1 and coalesce(c.self_destruct, false) then 1 end,
    'parents', case when s.n > 1
      then json_build_array(c.chain_name || case when s.n > 2 then '/' || s.n - 1 else '' end) end,
    'run_if', case when lag(s.careless) over (partition by s.chain_id order by s.n) then 'always' end,
    'timeout', case when greatest(s.ms, 0) > 0 then s.ms || ' ms'
      when coalesce(c.timeout, 0) > 0 then c.timeout || ' ms' end,
    'on_failure', case when nullif(c.on_error, '') is not null
      then json_build_object('kind', 'sql', 'command', c.on_error) end)) as task,
    s.kind
  from step s join chain c on c.chain_id = s.chain_id)
select format('chain %s %L', c.chain_id, c.chain_name) as what,
  case when t.n is null then 'it has no tasks' when c.fires ~* '^@reboot' then '@reboot has no counterpart'
    else t.fault end as left_out,
  concat_ws('; ',
    case when t.sql > 1 then 'its tasks ran in one transaction; now each has its own' end,
    case when t.role is not null
      then format('one of its tasks ran as %s; it will belong to the role that applies the file', t.role) end,
    case when nullif(c.client_name, '') is not null then format('it ran only on client %s: use labels of '
      'nodes and `require` for that', c.client_name) end,
    case when c.exclusive_execution then 'it ran alone: use a limit with max_running 1 for that' end) as note,
  t.tasks
from chain c left join (
  select x.chain_id, count(*) as n, min(x.fault) as fault, min(x.role) as role,
    count(*) filter (where x.kind = 'SQL') as sql, json_agg(x.task order by x.n) as tasks
  from task x group by x.chain_id) t on t.chain_id = c.chain_id
order by c.chain_id
