-- Which tasks are refused, and the messages.

-- All have one form: SQLSTATE 22023; column and value in the message; what would be right in the hint.
create or replace function pgrab_internal.refuse(p_column text, p_value text, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using
    errcode = '22023',
    message = format('task %s cannot be %s', p_column, coalesce(quote_literal(left(p_value, 200)), 'null')),
    hint = p_hint,
    schema = 'pgrab', table = 'task', column = p_column;
end $$;
comment on function pgrab_internal.refuse is
  'Refuses a value of a task with an error that says what would be right.';

-- LIKE refuses such a pattern only when it meets a text, which may be somebody else's task.  A name has 1000
-- bytes at most, and nodes compare it with each pattern.
create or replace function pgrab_internal.like_check(p_whose text, p_like text) returns void
language plpgsql as $$
begin
  if octet_length(p_like) > 2000 then
    raise exception using errcode = '22023',
      message = format('the pattern of %s cannot be %s bytes long', p_whose, octet_length(p_like)),
      hint = 'A pattern for LIKE may be at most 2000 bytes long.';
  elsif p_like ~ E'^([^\\\\]|\\\\.)*\\\\$' then
    raise exception using errcode = '22025',
      message = format('the pattern of %s cannot be %s', p_whose, quote_literal(left(p_like, 200))),
      hint = 'A backslash makes the next character an ordinary one, so it cannot be the last.';
  end if;
end $$;
comment on function pgrab_internal.like_check is
  'Refuses a pattern for LIKE that is too long, or ends in the middle of a character.';

create or replace function pgrab_internal.args_flat(p_value jsonb) returns boolean
language sql immutable parallel safe
return case jsonb_typeof(p_value)
  when 'object' then not exists (
    select from jsonb_each(p_value) e where jsonb_typeof(e.value) in ('object', 'array'))
  when 'array' then not exists (
    select from jsonb_array_elements(p_value) e where jsonb_typeof(e.value) in ('object', 'array'))
  else true end;
comment on function pgrab_internal.args_flat is
  'True when a member of args holds no nested objects or arrays.';

-- {"secret": "api"} or {"file": "api.key"} in place of a value: which of the two, and the name.  Else nulls.
create or replace function pgrab_internal.args_reference(p_value jsonb, out place text, out name text)
language sql immutable parallel safe
begin atomic
  select p.place, p_value ->> p.place
  from (select case when p_value ? 'secret' then 'secret' when p_value ? 'file' then 'file' end as place) p
  where jsonb_typeof(p_value) = 'object' and jsonb_typeof(p_value -> p.place) = 'string'
    and p_value - p.place = '{}';
end;
comment on function pgrab_internal.args_reference is
  'What a value in args refers to: a row of pgrab.secret, or a file of the node.';

create or replace function pgrab_internal.args_values_fine(p_value jsonb) returns boolean
language sql immutable parallel safe
return not exists (
  select from jsonb_each(case when jsonb_typeof(p_value) = 'object' then p_value end) e
    cross join lateral pgrab_internal.args_reference(e.value) r
  where jsonb_typeof(e.value) in ('object', 'array') and r.place is null);
comment on function pgrab_internal.args_values_fine is
  'True when an object holds only plain values and references.';

create or replace function pgrab_internal.args_length(p_value jsonb) returns integer
language sql immutable parallel safe
return case jsonb_typeof(p_value)
  when 'object' then (select count(*) from jsonb_object_keys(p_value))
  when 'array' then jsonb_array_length(p_value)
  else 1 end;
comment on function pgrab_internal.args_length is 'How many values a member of args holds.';

-- Null: the kind of a plug-in or a handler, which checks its own args.
create or replace function pgrab_internal.args_known(p_kind text) returns jsonb
language sql immutable parallel safe
return '{
  "sql":    {"params": "array", "transaction": "boolean", "steps": "array"},
  "shell":  {"env": "object", "stdin": "string", "cwd": "string", "umask": "string",
             "limits": "object"},
  "exec":   {"argv": "array", "env": "object", "stdin": "string", "cwd": "string", "umask": "string",
             "limits": "object"},
  "http":   {"method": "string", "headers": "object", "body": "string object array",
             "expect": "array string number", "follow": "boolean", "await": "boolean"},
  "notify": {"payload": "string"},
  "batch":  {"max_running": "number", "parked": "string"},
  "noop":   {}}'::jsonb -> p_kind;
comment on function pgrab_internal.args_known is 'Members of args that a kind takes, with their JSON types.';

create or replace function pgrab_internal.args_check_member(p_kind text, p_name text, p_value jsonb)
  returns void
language plpgsql as $$
declare
  c_known constant jsonb := pgrab_internal.args_known(p_kind);
  c_types constant text := c_known ->> p_name;
begin
  if c_types is null and c_known = '{}' then
    perform pgrab_internal.refuse('args', p_name, format('A task of kind %s takes no args.', p_kind));
  elsif c_types is null then
    perform pgrab_internal.refuse('args', p_name, format('A task of kind %s takes: %s.', p_kind,
      (select string_agg(k, ', ') from jsonb_object_keys(c_known) k)));
  elsif p_value <> 'null' and not jsonb_typeof(p_value) = any (string_to_array(c_types, ' ')) then
    perform pgrab_internal.refuse('args', format('{"%s": %s}', p_name, p_value),
      format('%s must be a JSON %s.', p_name, replace(c_types, ' ', ' or ')));
  elsif p_name = 'umask' and p_value #>> '{}' !~ '^0?(?!000)[0-7]{3}$' then
    perform pgrab_internal.refuse('args', format('{"umask": %s}', p_value),
      'umask is an octal number from 001 to 777, for example "022".');
  elsif p_name in ('env', 'headers') and not pgrab_internal.args_values_fine(p_value) then
    perform pgrab_internal.refuse('args', format('{"%s": %s}', p_name, p_value),
      format('%s may hold plain values only, or {"secret": "name"} or {"file": "path"} in place of one; '
        'no nested objects or arrays.', p_name));
  elsif p_name not in ('params', 'steps', 'body', 'env', 'headers')
    and not pgrab_internal.args_flat(p_value) then
    perform pgrab_internal.refuse('args', format('{"%s": %s}', p_name, p_value),
      format('%s may hold plain values only, no nested objects or arrays.', p_name));
  elsif p_name <> 'body' and pgrab_internal.args_length(p_value) > 1000 then
    perform pgrab_internal.refuse('args',
      format('%s of %s values', p_name, pgrab_internal.args_length(p_value)),
      format('%s may hold at most 1000 values.', p_name));
  end if;
end $$;
comment on function pgrab_internal.args_check_member is
  'Refuses a member of args that the kind does not take.';

-- As src/exec/http_request.c reads it: a status or a class, or lists of them, at most 32.
create or replace function pgrab_internal.http_expect_check(p_expect jsonb) returns void
language plpgsql as $$
declare
  c_one constant text := '([1-5][0-9]{2}|[1-5][xX]{2})';
  v_bad text;
  v_count bigint;
begin
  if p_expect is null then
    return;
  end if;
  select max(e.value) filter (where e.value !~ format('^[, ]*(%1$s([, ]+%1$s)*[, ]*)?$', c_one)),
    sum(array_length(regexp_split_to_array(btrim(e.value, ', '), '[, ]+'), 1))
  into v_bad, v_count
  from jsonb_array_elements_text(
    case jsonb_typeof(p_expect) when 'array' then p_expect else jsonb_build_array(p_expect) end) e;
  if v_bad is not null or v_count > 32 then
    perform pgrab_internal.refuse('args', format('{"expect": %s}', p_expect),
      'expect is a status such as 204, a class such as 2xx, or a list of at most 32 of them.');
  end if;
end $$;
comment on function pgrab_internal.http_expect_check is 'Refuses an `expect` that no reply could meet.';

create or replace function pgrab_internal.args_check(p_kind text, p_args jsonb, p_schema jsonb) returns void
language plpgsql as $$
declare
  v_bytes integer;
  v_fault text;
  v_name text;
begin
  if jsonb_typeof(p_args) <> 'object' then
    perform pgrab_internal.refuse('args', p_args::text,
      'args must be a JSON object, for example {"env": {"LANG": "C"}}.');
  end if;
  v_bytes := octet_length(p_args::text);
  if v_bytes > 1048576 then
    perform pgrab_internal.refuse('args', format('%s bytes long', v_bytes),
      'args may be at most 1 MiB long. Put large data in a table and pass its key.');
  end if;
  if pgrab_internal.args_known(p_kind) is not null then
    perform pgrab_internal.args_check_member(p_kind, e.key, e.value) from jsonb_each(p_args) e;
  elsif p_schema is not null then
    v_fault := pgrab_internal.schema_fault(p_schema, p_args, 'args');
    if v_fault is not null then
      perform pgrab_internal.refuse('args', p_args::text,
        format('%s, says the handler of kind %s.', v_fault, p_kind));
    end if;
  end if;
  if p_kind in ('shell', 'exec') and jsonb_typeof(p_args -> 'env') = 'object' then
    select k into v_name from jsonb_object_keys(p_args -> 'env') k
    where k !~ '^[A-Za-z_][A-Za-z0-9_]*$' limit 1;
    if found then
      perform pgrab_internal.refuse('args', format('{"env": {"%s": ...}}', v_name),
        'A name in env consists of letters, digits and underscores, and does not begin with a digit.');
    end if;
  end if;
  if p_kind = 'http' then
    perform pgrab_internal.http_expect_check(p_args -> 'expect');
  end if;
  if p_kind = 'notify' and octet_length(p_args ->> 'payload') >= 8000 then
    perform pgrab_internal.refuse('args', format('payload of %s bytes', octet_length(p_args ->> 'payload')),
      'A NOTIFY carries at most 7999 bytes. Put the data in a table and send its key.');
  end if;
end $$;
comment on function pgrab_internal.args_check is 'Refuses args that the kind does not take.';

create or replace function pgrab_internal.command_check(p_kind text, p_command text) returns void
language plpgsql as $$
declare
  c_wants constant text := '{"sql": "one or more SQL statements", "shell": "a line for sh",
    "exec": "the path of a program", "http": "a URL", "notify": "the name of a channel"}'::jsonb ->> p_kind;
begin
  if p_kind = 'batch' and p_command <> '' then
    perform pgrab_internal.refuse('command', p_command,
      'A batch runs nothing itself: its members are tasks with their own commands.');
  elsif btrim(p_command, E' \t\r\n') = '' and (c_wants is not null or p_command <> '') then
    perform pgrab_internal.refuse('command', p_command,
      format('A task of kind %s needs a command: %s.', p_kind, coalesce(c_wants, 'text that is not blank')));
  elsif octet_length(p_command) > 1048576 then
    perform pgrab_internal.refuse('command', format('%s bytes long', octet_length(p_command)),
      'A command may be at most 1 MiB long. Put it in a file, a function or a table, and call that.');
  elsif p_kind = 'http' and p_command !~* '^https?://[^/[:space:]]+' then
    perform pgrab_internal.refuse('command', p_command,
      'A task of kind http needs a URL that begins with http:// or https:// and a host.');
  elsif p_kind = 'notify' and octet_length(p_command) > 63 then
    perform pgrab_internal.refuse('command', p_command,
      'The name of a channel may be at most 63 bytes long.');
  end if;
end $$;
comment on function pgrab_internal.command_check is 'Refuses a command that the kind cannot carry out.';

-- args.steps of a sql task, instead of a command.  What a parent has printed is not filled into the commands:
-- it would be SQL that somebody else has written.
create or replace function pgrab_internal.step_fault(p_step jsonb) returns text
language sql immutable parallel safe
return case
  when jsonb_typeof(p_step) <> 'object' or jsonb_typeof(p_step -> 'name') is distinct from 'string'
      or jsonb_typeof(p_step -> 'command') is distinct from 'string'
      or p_step - '{name,command}'::text[] <> '{}'
    then 'A step is {"name": "charge", "command": "update ..."}.'
  when not octet_length(p_step ->> 'name') between 1 and 200 then 'The name of a step is 1 to 200 bytes long.'
  when btrim(p_step ->> 'command', E' \t\r\n') = ''
    then 'The command of a step is one or more SQL statements.'
  when p_step ->> 'command' like '%{{parent\_%'
    then 'What a parent has printed is not filled into SQL; read it with pgrab.output(id of the parent).' end;
comment on function pgrab_internal.step_fault is
  'What is wrong with an element of args.steps. Null: nothing.';

create or replace function pgrab_internal.steps_check(p_command text, p_args jsonb) returns void
language plpgsql as $$
declare
  c_steps constant jsonb := p_args -> 'steps';
  v_bad record;
begin
  if jsonb_typeof(c_steps) <> 'array' or c_steps = '[]' then
    perform pgrab_internal.refuse('args', format('{"steps": %s}', c_steps),
      'steps is an array of {"name": ..., "command": ...}, at least one.');
  elsif btrim(p_command, E' \t\r\n') <> '' then
    perform pgrab_internal.refuse('command', p_command,
      'A task with args.steps has no command of its own: make it a step.');
  elsif jsonb_strip_nulls(p_args - 'steps') <> '{}' then
    perform pgrab_internal.refuse('args', (p_args - 'steps')::text,
      'steps goes with nothing else: each step is a transaction, and has no parameters.');
  end if;
  select coalesce(pgrab_internal.step_fault(e.step), 'Two steps have this name.') as hint, e.step into v_bad
  from (
    select s.step, count(*) over (partition by s.step -> 'name') as same
    from jsonb_array_elements(c_steps) s(step)) e
  where pgrab_internal.step_fault(e.step) is not null or e.same > 1
  limit 1;
  if found then
    perform pgrab_internal.refuse('args', format('{"steps": [%s]}', v_bad.step), v_bad.hint);
  end if;
end $$;
comment on function pgrab_internal.steps_check is 'Refuses args.steps that a sql task cannot carry out.';

create or replace function pgrab_internal.task_schedule_check(t pgrab_internal.task) returns void
language plpgsql as $$
declare
  v_fault record;
  v_what text;
begin
  v_fault := pgrab_internal.schedule_fault(coalesce(t.schedule, '@hourly'), t.timezone);
  if v_fault.fault like 'invalid timezone%' then
    perform pgrab_internal.refuse('timezone', t.timezone, v_fault.hint);
  elsif v_fault.fault is not null then
    v_what := substr(v_fault.fault,
      length('invalid schedule : ' || pgrab_internal.schedule_quote(t.schedule)) + 1);
    perform pgrab_internal.refuse('schedule', t.schedule,
      format('%s. %s', upper(left(v_what, 1)) || substr(v_what, 2), v_fault.hint));
  end if;
end $$;
comment on function pgrab_internal.task_schedule_check is
  'Refuses a schedule or a time zone that cannot be read.';

create or replace function pgrab_internal.labels_fine(p_labels jsonb) returns boolean
language sql immutable parallel safe
return jsonb_typeof(p_labels) = 'object' and not exists (
  select from jsonb_each(case when jsonb_typeof(p_labels) = 'object' then p_labels else '{}' end) e
  where jsonb_typeof(e.value) <> 'string');
comment on function pgrab_internal.labels_fine is 'True for a JSON object of strings.';

create or replace function pgrab_internal.signal_name_fine(p_name text) returns boolean
language sql immutable parallel safe
return p_name ~ '^[A-Za-z0-9_.:-]{1,100}$';
comment on function pgrab_internal.signal_name_fine is 'May a signal have this name?';

-- Intervals are compared as if months had 30 days, and days 24 hours, so '71582780 months -2147483400 days'
-- is 0; but no time can be that much later.
create or replace function pgrab_internal.is_span(p_span interval, p_low interval, p_high interval)
returns boolean
language sql immutable parallel safe
return p_span between p_low and p_high and date_part('epoch', p_span) between 0 and 1e9
  and date_part('day', p_span) between -1e6 and 1e6;
comment on function pgrab_internal.is_span is
  'Is it in this range, and a span of time that can be added to any time?';

-- One expression, for the cost of a statement for each row would be three times that of the INSERT.
create or replace function pgrab_internal.task_fault(t pgrab_internal.task) returns text
language sql stable
return case
  when not octet_length(t.name) between 1 and 1000 then 'name: A name is 1 to 1000 bytes long, or null.'
  when not octet_length(t.key) between 1 and 1000 then 'key: A key is 1 to 1000 bytes long, or null.'
  when not octet_length(t.limit_key) between 1 and 1000
    then 'limit_key: A key is 1 to 1000 bytes long, or null.'
  when octet_length(t.source) > 1000 then 'source: A source may be at most 1000 bytes long.'
  when not pgrab_internal.is_span(t.timeout, '1 ms', '365 days')
    then 'timeout: A timeout is between 1 ms and 365 days.'
  when not t.max_attempts between 1 and 1000 then 'max_attempts: Attempts per fire: 1 to 1000.'
  when not pgrab_internal.is_span(t.backoff, '0', '365 days')
    then 'backoff: A wait is between 0 and 365 days.'
  when not pgrab_internal.is_span(t.backoff_max, t.backoff, '365 days')
    then 'backoff_max: The longest wait is between backoff and 365 days.'
  when t.delivery not in ('at_least_once', 'at_most_once')
    then 'delivery: One of: at_least_once, at_most_once.'
  when t.preemptible and t.delivery = 'at_most_once'
    then 'preemptible: With delivery at_most_once a run that was stopped could not be started again.'
  when t.misfire not in ('skip', 'once', 'all') then 'misfire: One of: skip, once, all.'
  when not pgrab_internal.is_span(t.misfire_after, '1 s', '365 days')
    then 'misfire_after: Between 1 s and 365 days.'
  when not t.misfire_limit between 0 and 100000 then 'misfire_limit: Between 0 and 100000.'
  when t.max_runs < 1 then 'max_runs: At least 1, or null for no end.'
  when not pgrab_internal.is_span(t.jitter, '0', '7 days') then 'jitter: Between 0 and 7 days.'
  when t.starts_at >= t.ends_at then 'ends_at: It must be later than starts_at.'
  when not t.starts_at between '0001-01-01 UTC' and '9999-12-31 UTC'
    then 'starts_at: Give a point in time, in the years 1 to 9999, or null.'
  when t.run_if not in ('success', 'failure', 'always') then 'run_if: One of: success, failure, always.'
  when t.on_closed not in ('skip', 'next', 'previous') then 'on_closed: One of: skip, next, previous.'
  when t.on_closed <> 'skip' and t.schedule ~* '^[ \t]*@(every|after)[ \t]'
    then 'on_closed: @every and @after count from one fire to the next: skip leaves out those of closed '
      'days. To move fires, write a cron expression.'
  when not pgrab_internal.is_span(t.expect_within, '1 s', '3650 days')
    then 'expect_within: Between 1 s and 3650 days, or null.'
  when not pgrab_internal.is_span(t.slow_after, '1 s', '365 days')
    then 'slow_after: Between 1 s and 365 days, or null.'
  when not pgrab_internal.is_span(t.stall_after, '1 s', '365 days')
    then 'stall_after: Between 1 s and 365 days, or null.'
  when not pgrab_internal.is_span(t.keep, '0', '3650 days') then 'keep: Between 0 and 3650 days, or null.'
  when not pgrab_internal.signal_name_fine(t.wait_for)
    then 'wait_for: The name of a signal is 1 to 100 letters, digits, ''_'', ''-'', ''.'' or '':''.'
  when not pgrab_internal.is_span(t.wait_timeout, '1 ms', '3650 days')
    then 'wait_timeout: Between 1 ms and 3650 days, or null: it waits for ever.'
  when t.wait_timeout is not null and t.wait_for is null
    then 'wait_timeout: It goes with wait_for, the name of the signal that the task waits for.'
  when t.signal_by is not null and t.wait_for is null
    and t.kind in ('sql', 'noop', 'shell', 'exec', 'http', 'notify', 'batch')
    then 'signal_by: It goes with wait_for, the name of the signal that the task waits for, or with a '
      'handler.'
  when octet_length(t.signal_by) > 63 then 'signal_by: The name of a role is at most 63 bytes long.'
  when not pgrab_internal.traceparent_fine(t.traceparent)
    then 'traceparent: A trace context as the W3C defines it: '
      '00-<32 hexadecimal digits>-<16>-<2>, in lower case, or null.'
  when t.require <> '{}' and octet_length(t.require::text) > 2000
    then 'require: It may be at most 2000 bytes long.'
  when t.require <> '{}' and not pgrab_internal.labels_fine(t.require)
    then 'require: A JSON object of label values, for example {"zone": "eu"}; values are strings, as in the '
      'node''s labels setting.'
  when octet_length(t.prefer::text) > 2000 then 'prefer: It may be at most 2000 bytes long.'
  when t.prefer is not null and not pgrab_internal.labels_fine(t.prefer)
    then 'prefer: A JSON object of label values, for example {"site": "hq"}, or null; values are strings, as '
      'in the node''s labels setting.'
  when not pgrab_internal.is_span(t.failover_after, '0', '365 days')
    then 'failover_after: Between 0 and 365 days, or null: 30 s.'
  when t.failover_after is not null and t.prefer is null
    then 'failover_after: It goes with prefer, the labels of the nodes that should take the task.'
  when t.prefer is not null and t.schedule is not null
    and coalesce(t.failover_after, '30 s') >= t.misfire_after
    then 'failover_after: With a schedule it is less than misfire_after (1 minute, if not given): else a '
      'fire counts as missed before other nodes may take it.'
  when not t.slots between 1 and 1000 then 'slots: A task takes 1 to 1000 workers of its node.'
  when octet_length(t.share_key) not between 1 and 200
    then 'share_key: 1 to 200 bytes, or null.' end;
comment on function pgrab_internal.task_fault is
  'What is wrong with a single column of a task, as column: what would be right; null: nothing. A null '
  'value is fine where the column may be null.';

-- Refuses a kind that no node has announced.  Returns the schema of the args of one that handlers carry out.
create or replace function pgrab_internal.kind_check(p_kind text) returns jsonb
language plpgsql as $$
declare
  v_schema jsonb;
begin
  if p_kind in ('sql', 'noop', 'shell', 'exec', 'http', 'notify', 'batch') then
    return null;
  end if;
  select k.schema into v_schema from pgrab.kind k where k.kind = p_kind;
  if not found then
    perform pgrab_internal.refuse('kind', p_kind,
      format('The kinds are: %s. A node that loads an executor adds its kind.',
        (select string_agg(k.kind, ', ' order by k.kind) from pgrab.kind k)));
  end if;
  return v_schema;
end $$;
comment on function pgrab_internal.kind_check is
  'Refuses a kind that no node has announced; returns the schema of the args of a handler''s.';

-- Checks what is to be done; plan_check() checks when.  The rules let null pass, and the table's NOT NULL
-- would not say what is right.
create or replace function pgrab_internal.task_check(t pgrab_internal.task) returns void
language plpgsql as $$
declare
  v_schema jsonb;
  v_fault text;
begin
  if num_nulls(t.kind, t.command, t.args, t.timezone, t.misfire, t.misfire_after, t.misfire_limit, t.jitter,
    t.slots, t.priority, t.timeout, t.max_attempts, t.backoff, t.backoff_max, t.delivery, t.run_if,
    t.require, t.paused, t.preemptible, t.source, t.on_closed) > 0 then
    perform pgrab_internal.refuse(c.name, null, 'Leave it out of the INSERT, or write DEFAULT.')
    from jsonb_each_text(to_jsonb(t)) c(name, value)
    where c.value is null and c.name <> 'run_at' and exists (
      select from pgrab_internal.task_column k where k.name = c.name and k.filled and not k.system);
  end if;
  v_schema := pgrab_internal.kind_check(t.kind);
  if t.kind = 'sql' and t.args -> 'steps' <> 'null' then
    perform pgrab_internal.steps_check(t.command, t.args);
  elsif t.command <> '' or pgrab_internal.args_known(t.kind) is not null then
    perform pgrab_internal.command_check(t.kind, t.command);
  end if;
  if t.args <> '{}' or v_schema is not null then
    perform pgrab_internal.args_check(t.kind, t.args, v_schema);
  end if;
  v_fault := pgrab_internal.task_fault(t);
  if v_fault is not null then
    perform pgrab_internal.refuse(f.part[1], to_jsonb(t) ->> f.part[1], f.part[2])
    from regexp_match(v_fault, '^([a-z_]+): (.*)$') f(part);
  end if;
  if t.timezone <> 'UTC' then
    perform pgrab_internal.task_schedule_check(t);
  end if;
  if t.on_failure is not null then
    perform pgrab_internal.template_check(t.on_failure, t.owner);
  end if;
end $$;
comment on function pgrab_internal.task_check is
  'Refuses a definition that cannot work, naming column, value and what would be right.';

create or replace function pgrab_internal.plan_check(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  if not isfinite(t.run_at) or t.run_at not between '0001-01-01Z' and '9999-12-31Z' then
    perform pgrab_internal.refuse('run_at', t.run_at::text,
      'Give a point in time. To keep a task from running, set paused = true.');
  elsif t.schedule is not null and t.parent_id is not null then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'A task with a parent starts when that has ended; the schedule belongs to the root of its chain.');
  elsif t.schedule is not null then
    perform pgrab_internal.task_schedule_check(t);
  end if;
end $$;
comment on function pgrab_internal.plan_check is
  'Refuses a time that is out of range and a schedule that cannot be read or fire.';

-- A task may use a limit of its owner, or one that an operator has made for everyone.  The error does not
-- reveal whether another owner has a limit of that name.
create or replace function pgrab_internal.limit_check(p_key text, p_owner text) returns void
language plpgsql as $$
declare
  l constant pgrab_internal.limit := pgrab_internal.limit_get(case when octet_length(p_key) <= 1000
    then p_key end);
begin
  if octet_length(p_key) > 1000 then -- before it is looked for by each of its beginnings
    perform pgrab_internal.refuse('limit_key', left(p_key, 200), 'A key is at most 1000 bytes long.');
  elsif p_key like '%*' then
    perform pgrab_internal.refuse('limit_key', p_key,
      'With * at its end it is a pattern for limits. A task names one key that the pattern matches.');
  elsif p_key is not null
      and (l.key is null or p_key like 'quota:%' or not pgrab_internal.is_for(l.owner, p_owner)) then
    perform pgrab_internal.refuse('limit_key', p_key,
      format('There is no such limit. Make it first: '
        'insert into pgrab.limit (key, max_running) values (%L, 5).', p_key));
  end if;
end $$;
comment on function pgrab_internal.limit_check is
  'Refuses the key of a limit that does not exist, or is not for tasks of this owner.';

create or replace function pgrab_internal.calendar_check(p_calendar text, p_owner text) returns void
language plpgsql as $$
begin
  if p_calendar is not null and not exists (
    select from pgrab.calendar c
    where c.name = p_calendar and pgrab_internal.is_for(c.owner, p_owner)) then
    perform pgrab_internal.refuse('calendar', p_calendar,
      format('There is no such calendar. Make it first: insert into pgrab.calendar (name) values (%L), or '
        'pgrab import ics.', p_calendar));
  end if;
end $$;
comment on function pgrab_internal.calendar_check is
  'Refuses a calendar that does not exist, or is not for tasks of this owner.';
