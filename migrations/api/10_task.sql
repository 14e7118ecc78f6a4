-- Triggers of pgrab.task: what is refused, what a row is completed with, how an edit is honoured, when the bell rings.
-- Files in api/ hold views and functions only.  All of them are applied, in name order, by every `pgrab migrate`.

create or replace function pgrab.shard(p_id bigint) returns smallint
language sql immutable strict parallel safe
return (hashint8extended(p_id, 0) & 1023)::smallint;
comment on function pgrab.shard(bigint) is 'Which of the 1024 virtual buckets a task belongs to. Negative, huge and consecutive ids spread evenly.';

-- Raises in one form: SQLSTATE 22023, the column and the value in the message, what would be right in the hint.
create or replace function pgrab.refuse(p_column text, p_value text, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using
    errcode = '22023',
    message = format('task %s cannot be %s', p_column, coalesce(quote_literal(left(p_value, 200)), 'null')),
    hint = p_hint,
    schema = 'pgrab', table = 'task', column = p_column;
end $$;
comment on function pgrab.refuse(text, text, text) is 'Internal: refuses a value of a task with an error that says what would be right.';

-- Is this args member a scalar / an object or array of scalars?  jsonb null counts as absent.
create or replace function pgrab.args_flat(p_value jsonb) returns boolean
language sql immutable parallel safe
return case jsonb_typeof(p_value)
  when 'object' then not exists (select from jsonb_each(p_value) e where jsonb_typeof(e.value) in ('object', 'array'))
  when 'array' then not exists (select from jsonb_array_elements(p_value) e where jsonb_typeof(e.value) in ('object', 'array'))
  else true end;
comment on function pgrab.args_flat(jsonb) is 'Internal: true when a member of args holds no nested objects or arrays.';

create or replace function pgrab.args_check(p_kind text, p_args jsonb) returns void
language plpgsql as $$
declare
  -- member and the JSON types it may have
  v_known constant jsonb := '{
    "sql":    {"params": "array"},
    "shell":  {"env": "object", "stdin": "string", "cwd": "string", "limits": "object"},
    "exec":   {"argv": "array", "env": "object", "stdin": "string", "cwd": "string", "limits": "object"},
    "http":   {"method": "string", "headers": "object", "body": "string object array", "expect": "array string number", "follow": "boolean"},
    "notify": {"payload": "string"},
    "noop":   {}}';
  v_allowed jsonb := v_known -> p_kind;
  v_name text;
  v_value jsonb;
begin
  if jsonb_typeof(p_args) <> 'object' then
    perform pgrab.refuse('args', p_args::text, 'args is a JSON object, for example {"env": {"LANG": "C"}}.');
  end if;
  if octet_length(p_args::text) > 1048576 then
    perform pgrab.refuse('args', format('%s bytes long', octet_length(p_args::text)), 'args may be 1 MiB long. Put large data in a table and pass its key.');
  end if;
  if v_allowed is null then
    return; -- a plugged-in kind knows its own
  end if;
  for v_name, v_value in select * from jsonb_each(p_args) loop
    if not v_allowed ? v_name then
      perform pgrab.refuse('args', v_name, case when v_allowed = '{}' then format('A task of kind %s takes no args.', p_kind)
        else format('A task of kind %s takes: %s.', p_kind, (select string_agg(k, ', ') from jsonb_object_keys(v_allowed) k)) end);
    elsif v_value <> 'null' and not jsonb_typeof(v_value) = any (string_to_array(v_allowed ->> v_name, ' ')) then
      perform pgrab.refuse('args', format('{"%s": %s}', v_name, v_value), format('%s is a JSON %s.', v_name, replace(v_allowed ->> v_name, ' ', ' or ')));
    elsif v_name not in ('params', 'body') and not pgrab.args_flat(v_value) then
      perform pgrab.refuse('args', format('{"%s": %s}', v_name, v_value), format('%s holds plain values only, no nested objects or arrays.', v_name));
    end if;
  end loop;
  for v_name in select * from jsonb_object_keys(case when jsonb_typeof(p_args -> 'env') = 'object' then p_args -> 'env' else '{}' end) loop
    if v_name !~ '^[A-Za-z_][A-Za-z0-9_]*$' then
      perform pgrab.refuse('args', format('{"env": {"%s": ...}}', v_name), 'A name in env is letters, digits and underscores, and does not begin with a digit.');
    end if;
  end loop;
end $$;
comment on function pgrab.args_check(text, jsonb) is 'Internal: refuses args that the kind does not take.';

create or replace function pgrab.task_check(t pgrab.task) returns void
language plpgsql as $$
declare
  v_bytes integer;
  v_fault record;
begin
  -- The tests below let null pass, and the table's NOT NULL would not say what is right.
  if num_nulls(t.kind, t.command, t.args, t.timezone, t.misfire, t.misfire_after, t.misfire_limit, t.jitter, t.priority, t.timeout, t.max_attempts,
      t.backoff, t.backoff_max, t.delivery, t.run_if, t.require, t.paused) > 0 then
    perform pgrab.refuse(c.name, null, 'Leave it out of the INSERT, or write DEFAULT.')
    from jsonb_each(to_jsonb(t)) c(name, value)
    where c.value = 'null' and c.name in ('kind', 'command', 'args', 'timezone', 'misfire', 'misfire_after', 'misfire_limit', 'jitter', 'priority', 'timeout',
      'max_attempts', 'backoff', 'backoff_max', 'delivery', 'run_if', 'require', 'paused');
  end if;
  if t.kind not in ('sql', 'noop', 'shell', 'exec', 'http', 'notify') and not exists (select from pgrab.kind k where k.kind = t.kind) then
    perform pgrab.refuse('kind', t.kind, format('Kinds are: %s. A node that loads an executor adds its kind.', (select string_agg(k.kind, ', ' order by k.kind) from pgrab.kind k)));
  end if;
  if t.command = '' and t.kind in ('sql', 'shell', 'exec', 'http', 'notify') or t.command <> '' and btrim(t.command, E' \t\r\n') = '' then
    perform pgrab.refuse('command', t.command, format('A task of kind %s needs a command: %s.', t.kind,
      case t.kind when 'sql' then 'one or more SQL statements' when 'shell' then 'a line for sh' when 'exec' then 'the path of a program'
        when 'http' then 'a URL' when 'notify' then 'the name of a channel' else 'text that is not blank' end));
  end if;
  v_bytes := octet_length(t.command);
  if v_bytes > 1048576 then
    perform pgrab.refuse('command', format('%s bytes long', v_bytes), 'A command may be 1 MiB long. Put it in a file, a function or a table, and call that.');
  end if;
  if t.kind = 'http' and t.command !~* '^https?://[^/[:space:]]+' then
    perform pgrab.refuse('command', t.command, 'A task of kind http needs a URL that begins with http:// or https:// and a host.');
  end if;
  if t.kind = 'notify' and v_bytes > 63 then
    perform pgrab.refuse('command', t.command, 'The name of a channel is at most 63 bytes long.');
  end if;
  if t.args <> '{}' then
    perform pgrab.args_check(t.kind, t.args);
    if t.kind = 'notify' and octet_length(t.args ->> 'payload') >= 8000 then
      perform pgrab.refuse('args', format('payload of %s bytes', octet_length(t.args ->> 'payload')), 'PostgreSQL carries at most 7999 bytes in a NOTIFY. Put the data in a table and send its key.');
    end if;
  end if;
  if t.name <> '' and octet_length(t.name) > 1000 or t.name = '' then
    perform pgrab.refuse('name', t.name, 'A name is 1 to 1000 bytes long, or null.');
  end if;
  if t.key is not null and octet_length(t.key) not between 1 and 1000 then
    perform pgrab.refuse('key', t.key, 'A key is 1 to 1000 bytes long, or null.');
  end if;
  if not isfinite(t.run_at) then
    perform pgrab.refuse('run_at', t.run_at::text, 'Give a point in time. To keep a task from running, set paused = true.');
  end if;
  if t.timeout not between '1 ms' and '365 days' then
    perform pgrab.refuse('timeout', t.timeout::text, 'A timeout is between 1 ms and 365 days.');
  end if;
  if t.max_attempts not between 1 and 1000 then
    perform pgrab.refuse('max_attempts', t.max_attempts::text, 'Tries per fire: 1 to 1000.');
  end if;
  if t.backoff not between '0' and '365 days' then
    perform pgrab.refuse('backoff', t.backoff::text, 'A wait is between 0 and 365 days.');
  end if;
  if t.backoff_max not between t.backoff and '365 days' then
    perform pgrab.refuse('backoff_max', t.backoff_max::text, format('The longest wait is between backoff (%s) and 365 days.', t.backoff));
  end if;
  if t.delivery not in ('at_least_once', 'at_most_once') then
    perform pgrab.refuse('delivery', t.delivery, 'One of: at_least_once, at_most_once.');
  end if;
  if t.misfire not in ('skip', 'once', 'all') then
    perform pgrab.refuse('misfire', t.misfire, 'One of: skip, once, all.');
  end if;
  if t.misfire_after not between '1 s' and '365 days' then
    perform pgrab.refuse('misfire_after', t.misfire_after::text, 'Between 1 s and 365 days.');
  end if;
  if t.misfire_limit not between 0 and 100000 then
    perform pgrab.refuse('misfire_limit', t.misfire_limit::text, 'Between 0 and 100000.');
  end if;
  if t.max_runs < 1 then
    perform pgrab.refuse('max_runs', t.max_runs::text, 'At least 1, or null for no end.');
  end if;
  if t.jitter not between '0' and '7 days' then
    perform pgrab.refuse('jitter', t.jitter::text, 'Between 0 and 7 days.');
  end if;
  if t.starts_at >= t.ends_at then
    perform pgrab.refuse('ends_at', t.ends_at::text, format('It has to be later than starts_at (%s).', t.starts_at));
  end if;
  if not isfinite(t.starts_at) then
    perform pgrab.refuse('starts_at', t.starts_at::text, 'Give a point in time, or null.');
  end if;
  if t.run_if not in ('success', 'failure', 'always') then
    perform pgrab.refuse('run_if', t.run_if, 'One of: success, failure, always.');
  end if;
  if t.require <> '{}' and (jsonb_typeof(t.require) <> 'object' or exists (select from jsonb_each(t.require) e where jsonb_typeof(e.value) <> 'string')) then
    perform pgrab.refuse('require', t.require::text, 'A JSON object of label values, for example {"zone": "eu"}; values are strings, as in the node''s labels setting.');
  end if;
  if t.schedule is not null or t.timezone <> 'UTC' then
    v_fault := pgrab.schedule_fault(coalesce(t.schedule, '@hourly'), t.timezone);
    if v_fault.fault like 'invalid timezone%' then
      perform pgrab.refuse('timezone', t.timezone, v_fault.hint);
    elsif v_fault.fault is not null then
      perform pgrab.refuse('schedule', t.schedule, format('%s. %s', upper(left(v_what, 1)) || substr(v_what, 2), v_fault.hint))
      from substr(v_fault.fault, length('invalid schedule ' || pgrab.schedule_quote(t.schedule) || ': ') + 1) v_what;
    end if;
  end if;
  if t.parent_id is not null and t.schedule is not null then
    perform pgrab.refuse('schedule', t.schedule, 'A task with a parent starts when that has ended; the schedule belongs to the root of its chain.');
  end if;
  if t.limit_key is not null and not exists (select from pgrab.limit l where l.key = t.limit_key) then
    perform pgrab.refuse('limit_key', t.limit_key, format('There is no such limit. Make it first: insert into pgrab.limit (key, max_running) values (%L, 5).', t.limit_key));
  end if;
end $$;
comment on function pgrab.task_check(pgrab.task) is 'Internal: refuses a definition that cannot work, naming column, value and what would be right.';

-- Tells sleeping nodes to look now.  A hint only: everything works without it, at most `poll` later.
-- The payload names shards, so that a look for one task reads one shard; many shards are the empty payload, "look everywhere".
create or replace function pgrab.ring(p_shards smallint[]) returns void
language plpgsql as $$
begin
  if exists (select from pgrab.node n where n.bell and n.state = 'up') then
    perform pg_notify('pgrab', case when cardinality(p_shards) <= 16 then array_to_string(p_shards, ' ') else '' end);
  end if;
end $$;
comment on function pgrab.ring(smallint[]) is 'Internal: the doorbell, a NOTIFY on channel pgrab. Sent only when a node sleeps, because every NOTIFY takes a lock that all commits share.';

-- run_at of a task with a schedule: the one given, or its first fire.
create or replace function pgrab.plan_first(t pgrab.task, p_given timestamptz) returns timestamptz
language plpgsql as $$
declare
  v_first timestamptz := coalesce(p_given, pgrab.first_fire(t));
begin
  if v_first is null then
    perform pgrab.refuse('schedule', t.schedule, 'It does not fire any more before the year 10000.');
  elsif v_first > t.ends_at then
    perform pgrab.refuse('ends_at', t.ends_at::text, format('The first fire of %s would be %s; ends_at has to be later.', pgrab.schedule_quote(t.schedule), v_first));
  elsif t.fires >= t.max_runs then
    perform pgrab.refuse('max_runs', t.max_runs::text, format('It has fired %s times already. Delete the task to end it.', t.fires));
  end if;
  return v_first;
end $$;
comment on function pgrab.plan_first(pgrab.task, timestamptz) is 'Internal: when a task with a schedule is due first; refuses one that would never fire.';

create or replace function pgrab.task_insert() returns trigger
language plpgsql as $$
begin
  new.run_at := coalesce(new.run_at, case when new.schedule is null then now() else 'epoch' end);
  perform pgrab.task_check(new);
  if new.schedule is not null then
    new.run_at := pgrab.plan_first(new, nullif(new.run_at, 'epoch'));
  end if;
  -- What the system writes is never taken from the row.
  new.shard := pgrab.shard(new.id);
  new.owner := session_user;
  new.created_at := now();
  new.updated_at := new.created_at;
  new.status := 'scheduled';
  new.version := 0;
  new.node_id := null;
  new.incarnation := null;
  new.attempt := 0;
  new.fire_at := new.run_at;
  new.due_at := case when new.paused then null else new.run_at + pgrab.jitter_of(new.id, new.jitter) end;
  new.claimed_at := null;
  new.started_at := null;
  new.runs := 0;
  new.fires := 0;
  new.failures := 0;
  new.last_outcome := null;
  new.last_error := null;
  new.last_finished_at := null;
  new.chain := null;
  new.needs := null;
  new.met := null;
  if new.parent_id is not null then
    new := pgrab.chain_join(new);
  end if;
  return new;
end $$;
comment on function pgrab.task_insert() is 'Internal: checks and completes a new task.';

-- An edit of the definition.  Not started: planned anew, and whoever held a claim finds a new version.  Running: the run finishes as
-- it was started, because its fence (version, incarnation) is left alone.  Whoever plans a task anew inside the system (re-arming, misfire) raises the
-- version itself; that is no edit, and the trigger passes it by.
create or replace function pgrab.task_edit() returns trigger
language plpgsql as $$
declare
  v_same boolean;
begin
  if new.id <> old.id then
    perform pgrab.refuse('id', new.id::text, 'A task keeps its number. Insert a new task instead.');
  end if;
  if new.run_at <> old.run_at and new.schedule = old.schedule and new.timezone = old.timezone and new.starts_at is not distinct from old.starts_at
    and new.run_at = pgrab.first_fire(new) then
    -- The insert half of an upsert has worked out when a new task would fire; this one is planned already.
    new.run_at := old.run_at;
  end if;
  if (old.name, old.key, old.kind, old.command, old.args, old.run_at, old.schedule, old.timezone, old.misfire, old.misfire_after, old.misfire_limit,
      old.starts_at, old.ends_at, old.max_runs, old.jitter, old.priority, old.timeout, old.max_attempts, old.backoff, old.backoff_max,
      old.delivery, old.parent_id, old.run_if, old.require, old.limit_key, old.paused)
    is not distinct from
     (new.name, new.key, new.kind, new.command, new.args, new.run_at, new.schedule, new.timezone, new.misfire, new.misfire_after, new.misfire_limit,
      new.starts_at, new.ends_at, new.max_runs, new.jitter, new.priority, new.timeout, new.max_attempts, new.backoff, new.backoff_max,
      new.delivery, new.parent_id, new.run_if, new.require, new.limit_key, new.paused) then
    return new; -- an upsert that changes nothing disturbs nothing
  end if;
  perform pgrab.task_check(new);
  if new.schedule is not null then
    if (new.schedule, new.timezone, new.starts_at, new.ends_at, new.max_runs) is distinct from (old.schedule, old.timezone, old.starts_at, old.ends_at, old.max_runs) then
      -- A new schedule is planned from now on; a run_at that was not touched belongs to the old one.
      v_same := (new.schedule, new.timezone, new.starts_at) is not distinct from (old.schedule, old.timezone, old.starts_at);
      new.run_at := pgrab.plan_first(new, case when new.run_at <> old.run_at or v_same then new.run_at end);
    end if;
  end if;
  new.updated_at := clock_timestamp();
  if old.status = 'running' then
    return new;
  end if;
  new.version := old.version + 1;
  new.node_id := null;
  new.incarnation := null;
  new.claimed_at := null;
  -- A link that waits, or has ended, is planned by its chain.
  if new.run_at is distinct from old.run_at and (old.chain is null or old.status in ('scheduled', 'claimed')) then
    new.status := 'scheduled';
    new.fire_at := new.run_at;
    new.attempt := 0;
    new.due_at := null; -- below
  elsif old.status = 'claimed' then
    new.status := 'scheduled';
  end if;
  if new.paused or new.status <> 'scheduled' then
    new.due_at := null;
  elsif new.due_at is null or new.jitter <> old.jitter and new.attempt = 0 then
    new.due_at := new.fire_at + pgrab.jitter_of(new.id, new.jitter);
  end if;
  if new.due_at < now() + interval '1 minute' then
    perform pgrab.ring(array[new.shard]);
  end if;
  return new;
end $$;
comment on function pgrab.task_edit() is 'Internal: honours a change of the definition: a task not yet started is planned anew; one that runs finishes as it was started.';

create or replace function pgrab.task_inserted() returns trigger
language plpgsql as $$
declare
  v_shards smallint[];
begin
  -- 17 shards are enough to know that there are more than 16
  select array_agg(s.shard) into v_shards from (select distinct t.shard from new_task t where t.due_at < now() + interval '1 minute' limit 17) s;
  if v_shards is not null then
    perform pgrab.ring(v_shards);
  end if;
  if exists (select from new_task t where t.needs is not null) then
    update pgrab.chain c set pending = c.pending + n.n from (select t.chain, count(*) as n from new_task t where t.needs is not null group by t.chain) n where c.id = n.chain and c.root is not null;
  end if;
  return null;
end $$;
comment on function pgrab.task_inserted() is 'Internal: rings the doorbell once per INSERT, when a new task is due soon; counts new links of chains.';

create or replace trigger task_10_insert before insert on pgrab.task for each row execute function pgrab.task_insert();
create or replace trigger task_10_edit before update of
  id, name, key, kind, command, args, run_at, schedule, timezone, misfire, misfire_after, misfire_limit, starts_at, ends_at, max_runs, jitter, priority,
  timeout, max_attempts, backoff, backoff_max, delivery, parent_id, run_if, require, limit_key, paused
  on pgrab.task for each row when (new.version = old.version) execute function pgrab.task_edit();
create or replace trigger task_20_inserted after insert on pgrab.task referencing new table as new_task
  for each statement execute function pgrab.task_inserted();

create or replace function pgrab.edges_above(p_id bigint) returns jsonb
language plpgsql stable parallel safe as $$
begin
  return (select jsonb_build_object('parents', jsonb_agg(jsonb_build_object('parent_id', e.parent_id, 'run_if', e.run_if))) from pgrab.edge e where e.child_id = p_id having count(*) > 0);
end $$;
comment on function pgrab.edges_above(bigint) is 'Internal: the edges of a link besides its parent_id, as they are kept in its definition. Null: there are none.';

-- The definition of a task that leaves pgrab.task, without what is default. Every task passes here at its end: an expression without a subquery, which PostgreSQL puts in the place of the call, and a
-- test before it that keeps the plain task and the plain link cheap.
-- (A text and not a parsed body, like everything that takes a row of a table. A parsed body would forbid the next migration to add a column.)
create or replace function pgrab.definition_own(t pgrab.task) returns jsonb
language sql stable parallel safe as $$
  select case when t.command = '' and t.args = '{}' and t.key is null and t.max_attempts = 3 and t.priority = 0 and t.timeout = '1 hour'
    and t.delivery = 'at_least_once' and t.require = '{}' and t.backoff = '5 s' and t.backoff_max = '1 hour' and t.schedule is null and t.limit_key is null
    and t.misfire = 'once' and t.jitter = '0' and t.run_if = 'success' then
    case when t.chain is null then null when t.parent_id is null then '{}' else jsonb_build_object('parent_id', t.parent_id) end
  else jsonb_strip_nulls(jsonb_build_object(
    'key', t.key, 'command', nullif(t.command, ''), 'schedule', t.schedule,
    'timezone', nullif(t.timezone, 'UTC'), 'misfire', nullif(t.misfire, 'once'), 'misfire_after', nullif(t.misfire_after, '1 minute'),
    'misfire_limit', nullif(t.misfire_limit, 100), 'starts_at', t.starts_at, 'ends_at', t.ends_at, 'max_runs', t.max_runs, 'jitter', nullif(t.jitter, '0'),
    'priority', nullif(t.priority, 0), 'timeout', nullif(t.timeout, '1 hour'), 'max_attempts', nullif(t.max_attempts, 3), 'backoff', nullif(t.backoff, '5 s'),
    'backoff_max', nullif(t.backoff_max, '1 hour'), 'delivery', nullif(t.delivery, 'at_least_once'), 'parent_id', t.parent_id, 'run_if', nullif(t.run_if, 'success'),
    'require', nullif(t.require, '{}'), 'limit_key', t.limit_key))
    || case when t.args = '{}' then '{}' else jsonb_build_object('args', t.args) end end -- nulls inside args are part of them
$$;
comment on function pgrab.definition_own(pgrab.task) is 'Internal: pgrab.definition() without the rows of pgrab.edge.';

create or replace function pgrab.definition(t pgrab.task) returns jsonb
language sql stable parallel safe as $$
  select case when t.chain is null then pgrab.definition_own(t) else pgrab.definition_own(t) || coalesce(pgrab.edges_above(t.id), '{}') end
$$;
comment on function pgrab.definition(pgrab.task) is 'The definition of a task as JSON, without what is default: kept in the history when the task ends. Null: all default.';

-- One netstring list of a task's args for the node: key, value, key, value ...; see include/pgrab/executor.h struct pgrab_arg.
create or replace function pgrab.args_list(p_args jsonb) returns text
language sql immutable parallel safe
return (
  select string_agg(octet_length(convert_to(f.key, 'UTF8')) || ':' || f.key || ',' || octet_length(convert_to(f.value, 'UTF8')) || ':' || f.value || ',', '' order by f.n, f.m)
  from (
    -- a null among sql's params is a value: it comes under the key params:null
    select case when a.is_null then e.key || ':null' else e.key end as key, coalesce(o.key || '=' || o.value, a.value, s.value) as value, e.n, coalesce(o.m, a.m, 0) as m
    from jsonb_each(p_args) with ordinality e(key, value, n)
    left join lateral jsonb_each_text(case when jsonb_typeof(e.value) = 'object' and e.key <> 'body' then e.value end) with ordinality o(key, value, m) on true
    left join lateral (
      select coalesce(case when jsonb_typeof(x.value) in ('object', 'array') then x.value::text else x.value #>> '{}' end, '') as value, x.value = 'null' as is_null, x.m
      from jsonb_array_elements(case when jsonb_typeof(e.value) = 'array' and e.key <> 'body' then e.value end) with ordinality x(value, m)) a on true
    cross join lateral (select case when jsonb_typeof(e.value) in ('object', 'array') and e.key <> 'body' then null else e.value #>> '{}' end as value) s
  ) f
  where f.value is not null);
comment on function pgrab.args_list(jsonb) is 'Internal: args taken apart for the node, as netstrings, so that no user JSON is parsed outside the database.';

-- In seconds: an interval times 2^40 is out of range before least() sees it.
create or replace function pgrab.retry_wait(p_backoff interval, p_backoff_max interval, p_attempt integer) returns interval
language sql volatile parallel safe
return least(extract(epoch from p_backoff)::float8 * power(2, least(greatest(p_attempt, 1) - 1, 40)), extract(epoch from p_backoff_max)::float8) * (0.9 + 0.2 * random()) * interval '1 s';
comment on function pgrab.retry_wait(interval, interval, integer) is 'Wait before the next try after attempt n: backoff * 2^(n-1), at most backoff_max, +-10 %.';

-- The priorities other than 0 that anything due has: one probe of the index for each.
create or replace function pgrab.lanes() returns setof smallint
language sql stable as $$
  with recursive lane(priority) as (
    (select t.priority from pgrab.task t where t.due_at is not null and t.priority <> 0 order by t.priority limit 1)
    union all
    select (select t.priority from pgrab.task t where t.due_at is not null and t.priority <> 0 and t.priority > l.priority order by t.priority limit 1) from lane l where l.priority is not null)
  select l.priority from lane l where l.priority is not null
$$;
comment on function pgrab.lanes() is 'Internal: the priorities other than 0 that are in use.';

-- Meant to be inlined: then the time is a condition of the index scans. It has to be a stable expression, or it is worked out for every row.
create or replace function pgrab.due_until(p_until timestamptz) returns setof pgrab.task
language sql stable as $$
  select t.* from generate_series(0, 1023) as s(shard) join pgrab.task t on t.shard = s.shard and t.priority = 0 and t.due_at <= p_until
  union all
  select t.* from pgrab.lanes() as l(priority) join pgrab.task t on t.priority = l.priority and t.priority <> 0 and t.due_at <= p_until
$$;
comment on function pgrab.due_until(timestamptz) is 'Internal: tasks that are due until then, held or not, by index.';
