-- Alerts: an incident begins with the first fire of a task that fails for good, and ends with the task's next
-- success.  It is reported once when it begins and once when it ends, by ordinary tasks that are inserted in
-- the transaction of the finish: so what is recorded is reported, and nothing else.
--
--   pgrab.task.on_failure   for one task
--   pgrab.alert             for many, by owner, name and source
--
-- Cost: a batch of successes only checks whether there is any incident.

create or replace function pgrab_internal.template_refuse(p_value text, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023',
    message = format('the template of an alert cannot be %s', quote_literal(left(p_value, 200))),
    hint = p_hint;
end $$;
comment on function pgrab_internal.template_refuse(text, text) is 'Refuses a template.';

-- Columns that a template leaves out have their defaults.
create or replace function pgrab_internal.template_check(p_template jsonb, p_owner text) returns void
language plpgsql as $$
declare
  c_columns constant text[] := '{kind,command,args,name,priority,timeout,max_attempts,backoff,backoff_max,
    delivery,require,limit_key,events}';
  c_defaults constant jsonb := '{"kind": "sql", "command": "", "args": {}, "require": {}, "timezone": "UTC",
    "misfire": "once", "misfire_after": "1 min", "misfire_limit": 100, "jitter": "0", "priority": 0,
    "timeout": "1 hour", "max_attempts": 3, "backoff": "5 s", "backoff_max": "1 hour",
    "delivery": "at_least_once", "run_if": "success", "paused": false, "source": ""}';
  v_key text;
begin
  if jsonb_typeof(p_template) <> 'object' then
    perform pgrab_internal.template_refuse(p_template::text,
      'It must be a JSON object of columns, for example {"kind": "http", "command": "https://..."}.');
  end if;
  select k into v_key from jsonb_object_keys(p_template) k where k <> all (c_columns) limit 1;
  if found then
    perform pgrab_internal.template_refuse(v_key,
      format('It may have: %s.', array_to_string(c_columns, ', ')));
  end if;
  if p_template ? 'events' and not (jsonb_typeof(p_template -> 'events') = 'array'
      and p_template -> 'events' <@ '["failed", "parked", "recovered"]') then
    perform pgrab_internal.template_refuse(p_template ->> 'events',
      'events is an array of failed, parked, recovered; the default is failed, parked.');
  end if;
  perform pgrab_internal.task_check(
    jsonb_populate_record(null::pgrab_internal.task, c_defaults || (p_template - 'events')));
  perform pgrab_internal.limit_check(p_template ->> 'limit_key', p_owner);
  perform pgrab_internal.kind_refuse(p_owner, coalesce(p_template ->> 'kind', 'sql'));
end $$;
comment on function pgrab_internal.template_check(jsonb, text) is
  'Refuses a template from which no task could be made.';

create or replace function pgrab_internal.alert_changed() returns trigger
language plpgsql as $$
declare
  v_before text[];
begin
  perform pgrab_internal.template_check(new.template - 'events', new.set_by);
  if 'late' = any (new.events) then
    v_before := pgrab_internal.call_begin('alert', new.set_by);
    insert into pgrab.task (owner, key, kind, command, schedule, misfire, source)
    values (new.set_by, 'pgrab.alert_late', 'sql', 'select pgrab.alert_late()', '@every 1m', 'skip',
      'pgrab.alert')
    on conflict (key) do nothing;
    perform pgrab_internal.call_end(v_before);
  end if;
  return new;
end $$;
comment on function pgrab_internal.alert_changed() is
  'Checks an alert; the first one for late tasks also schedules the search for them.';
create or replace function pgrab.alert_set_by() returns trigger
language plpgsql as $$
begin
  new.set_by := current_user;
  return new;
end $$;
comment on function pgrab.alert_set_by() is
  'Trigger: the tasks that an alert inserts belong to the role that last wrote the alert.';
create or replace trigger alert_05_set_by before insert or update on pgrab.alert
  for each row execute function pgrab.alert_set_by();
create or replace trigger alert_10_changed before insert or update on pgrab.alert
  for each row execute function pgrab_internal.alert_changed();

create or replace function pgrab_internal.alert_text(
  p_event text, p_called text, t pgrab_internal.task, i pgrab_internal.incident)
returns text
language sql stable
begin atomic
  select case p_event
    when 'recovered' then case when i.failures = 0
      then format('%s has recovered: it was late since %s', p_called, pgrab_internal.cut(i.since))
      else format('%s has recovered: %s %s since %s', p_called, i.failures,
        case i.failures when 1 then 'failure' else 'failures' end, pgrab_internal.cut(i.since)) end
    when 'late' then format('%s is late: no success within %s', p_called, t.expect_within)
    when 'parked' then format('%s is parked after %s of %s attempts: %s', p_called, t.attempt, t.max_attempts,
      coalesce(t.last_error, t.last_outcome))
    else format('%s %s: %s', p_called, replace(coalesce(t.last_outcome, 'failed'), '_', ' '),
      coalesce(t.last_error, 'no reason given')) end;
end;
comment on function pgrab_internal.alert_text(text, text, pgrab_internal.task, pgrab_internal.incident) is
  'One line that says what has happened.';

-- All are strings, so that they fit anywhere.
create or replace function pgrab_internal.alert_facts(
  p_event text, t pgrab_internal.task, i pgrab_internal.incident, p_node text)
returns jsonb
language sql stable
begin atomic
  select jsonb_object_agg(f.key, coalesce(f.value, ''))
  from (values
    ('event', p_event), ('task', pgrab_internal.called(t.id, t.name, t.key)), ('id', t.id::text),
    ('key', t.key), ('name', t.name), ('kind', t.kind), ('source', t.source), ('owner', t.owner),
    ('outcome', t.last_outcome), ('since', to_json(i.since) #>> '{}'), ('failures', i.failures::text),
    ('finished_at', to_json(t.last_finished_at) #>> '{}'), ('node', p_node),
    ('database', current_database()),
    ('text', pgrab_internal.alert_text(p_event, pgrab_internal.called(t.id, t.name, t.key), t, i)),
    ('error', case when p_event <> 'recovered' then t.last_error end)) f(key, value);
end;
comment on function pgrab_internal.alert_facts(text, pgrab_internal.task, pgrab_internal.incident, text) is
  'What is known of an incident, as strings.';

-- Replaces {{name}} in any text of args, but never in a command: what a task has printed must not be
-- executed.
create or replace function pgrab_internal.alert_fill(p_args jsonb, p_facts jsonb) returns jsonb
language plpgsql immutable as $$
declare
  v_text text := p_args::text;
  f record;
begin
  if v_text like '%{{%' then
    for f in select key, value from jsonb_each_text(p_facts) order by key in ('text', 'error') loop
      v_text := replace(v_text, '{{' || f.key || '}}',
        substr(to_json(f.value)::text, 2, length(to_json(f.value)::text) - 2));
    end loop;
  end if;
  return v_text::jsonb;
end $$;
comment on function pgrab_internal.alert_fill(jsonb, jsonb) is 'Puts the facts where a template names them.';

-- Adds the facts where the kind has a place for them that the template has not filled.
create or replace function pgrab_internal.alert_args(p_kind text, p_args jsonb, p_facts jsonb) returns jsonb
language sql immutable
begin atomic
  select case
    when p_kind in ('shell', 'exec') then
      jsonb_build_object('stdin', (p_facts ->> 'text') || E'\n\n' || (
        select string_agg(f.key || ': ' || f.value, E'\n' order by f.key)
        from jsonb_each_text(p_facts) f where f.value <> '' and f.key <> 'text') || E'\n')
      || a.filled || jsonb_build_object('env', (
        select jsonb_object_agg('PGRAB_ALERT_' || upper(f.key), f.value) from jsonb_each(p_facts) f)
        || coalesce(a.filled -> 'env', '{}'))
    when p_kind = 'http' then jsonb_build_object('body', p_facts)
      || case when a.filled ? 'method' then '{}' else '{"method": "POST"}'::jsonb end || a.filled
    when p_kind = 'sql' then jsonb_build_object('params', jsonb_build_array(p_facts)) || a.filled
    when p_kind = 'notify' then jsonb_build_object('payload', left(p_facts ->> 'text', 1500)) || a.filled
    else a.filled end
  from (select pgrab_internal.alert_fill(p_args, p_facts) as filled) a;
end;
comment on function pgrab_internal.alert_args(text, jsonb, jsonb) is
  'The args of the task that reports an incident.';

create or replace function pgrab_internal.alert_insert(p_template jsonb, p_owner text, p_facts jsonb)
returns void
language plpgsql as $$
declare
  v_task constant jsonb := jsonb_build_object('name', left('alert: ' || (p_facts ->> 'task'), 200))
    || (p_template - 'events') || jsonb_build_object('source', 'pgrab.alert', 'args',
      pgrab_internal.alert_args(coalesce(p_template ->> 'kind', 'sql'),
        coalesce(p_template -> 'args', '{}'), p_facts));
  v_columns constant text := (select string_agg(quote_ident(k), ', ') from jsonb_object_keys(v_task) k);
  v_before text[];
begin
  v_before := pgrab_internal.call_begin('alert', p_owner);
  execute format('insert into pgrab.task (owner, %s) select $2, %s '
    'from jsonb_populate_record(null::pgrab_internal.task, $1)', v_columns, v_columns) using v_task, p_owner;
  perform pgrab_internal.call_end(v_before);
end $$;
comment on function pgrab_internal.alert_insert(jsonb, text, jsonb) is
  'Inserts the task that reports an incident; it belongs to the role that set the alert.';

create or replace function pgrab_internal.alert_templates(p_event text, t pgrab_internal.task)
returns table (template jsonb, owner text)
language sql stable
begin atomic
  select t.on_failure, t.owner
  where t.on_failure is not null and coalesce(t.on_failure -> 'events', '["failed", "parked"]') ? p_event
  union all
  select a.template, a.set_by from pgrab.alert a
  where a.enabled and p_event = any (a.events) and coalesce(a.owner = t.owner, true)
    and (a.set_by = t.owner or pgrab_internal.may_operate(a.set_by))
    and coalesce(a.source = t.source, true)
    and (a.task_like is null or coalesce(t.name, t.key, '') like a.task_like);
end;
comment on function pgrab_internal.alert_templates(text, pgrab_internal.task) is
  'The templates that apply to an event of a task.';

-- The run's end is recorded even if something is wrong with a template.
create or replace function pgrab_internal.alert_tell(
  p_event text, t pgrab_internal.task, i pgrab_internal.incident, p_node text)
returns void
language plpgsql as $$
begin
  if t.source = 'pgrab.alert' then
    return;
  end if;
  perform pgrab_internal.alert_insert(a.template, a.owner,
    pgrab_internal.alert_facts(p_event, t, i, p_node))
  from pgrab_internal.alert_templates(p_event, t) a;
exception when others then
  update pgrab.incident x set fault = left(sqlerrm, 1000) where x.task_id = t.id;
  raise warning 'an alert for task % could not be inserted: %', t.id, sqlerrm;
end $$;
comment on function pgrab_internal.alert_tell(text, pgrab_internal.task, pgrab_internal.incident, text) is
  'Inserts the alerts for an event of a task.';

-- A task that has left is known only from its history.
create or replace function pgrab_internal.alert_task(p_id bigint) returns pgrab_internal.task
language plpgsql stable as $$
declare
  t pgrab_internal.task;
begin
  select * into t from pgrab.task x where x.id = any (array[p_id]);
  if not found then
    select x.* into t
    from (select y.* from pgrab.run y where y.task_id = p_id offset 0) r
      cross join lateral jsonb_populate_record(null::pgrab_internal.task,
      coalesce(r.definition, '{}') || jsonb_build_object('id', r.task_id, 'name', r.name, 'key', r.key,
        'kind', r.kind, 'owner', r.owner, 'last_outcome', r.outcome, 'last_finished_at', r.finished_at,
        'source', coalesce(r.definition ->> 'source', ''))) x
    where r.ended is not null
    order by r.finished_at desc limit 1;
  end if;
  return t;
end $$;
comment on function pgrab_internal.alert_task(bigint) is 'A task as it is, or as it ended.';

create or replace function pgrab_internal.incidents_end(
  b pgrab_internal.batch, p_ended pgrab_internal.ended[], p_node text) returns void
language plpgsql as $$
declare
  i pgrab_internal.incident;
begin
  for i in
    delete from pgrab.incident x
    using pgrab_internal.batch_rows(b) f join unnest(p_ended) e on e.task_id = f.id
    where f.outcome = 'succeeded' and x.task_id = any (array[f.id]) returning x.*
  loop
    perform pgrab_internal.alert_tell('recovered', pgrab_internal.alert_task(i.task_id), i, p_node);
  end loop;
end $$;
comment on function pgrab_internal.incidents_end(pgrab_internal.batch, pgrab_internal.ended[], text) is
  'Ends the incidents of tasks that have succeeded.';

-- A plain one-shot task that no alert covers has no incident: that it is parked says as much.
create or replace function pgrab_internal.incidents_begin(p_ended pgrab_internal.ended[], p_node text)
returns void
language plpgsql as $$
declare
  c_alerts constant boolean := exists (select from pgrab.alert);
  t pgrab_internal.task;
  i pgrab_internal.incident;
begin
  for t in
    select x.* from unnest(p_ended) e cross join lateral (
      select k.* from pgrab.task k where k.id = any (array[e.task_id]) offset 0) x
    where x.last_outcome in ('failed', 'timed_out', 'lost') and (x.status = 'parked' or x.attempt = 0)
      and (c_alerts or x.on_failure is not null or x.schedule is not null or x.chain is not null)
    order by x.id
  loop
    update pgrab.incident x
    set failures = x.failures + 1, event = case t.status when 'parked' then 'parked' else 'failed' end,
      since = case x.event when 'late' then t.last_finished_at else x.since end
    where x.task_id = any (array[t.id]);
    continue when found;
    insert into pgrab.incident (task_id, event, since, succeeded_at)
    values (t.id, case t.status when 'parked' then 'parked' else 'failed' end, t.last_finished_at,
      case when t.runs > t.failures then (select max(r.finished_at) from pgrab.run r
        where r.task_id = t.id and r.outcome = 'succeeded') end)
    returning * into i;
    perform pgrab_internal.alert_tell(i.event, t, i, p_node);
  end loop;
end $$;
comment on function pgrab_internal.incidents_begin(pgrab_internal.ended[], text) is
  'Begins or prolongs the incidents of tasks whose fire has failed for good with one of these runs.';

-- Serves: finish(), after the tasks have been updated.
create or replace function pgrab_internal.alert(
  b pgrab_internal.batch, p_ended pgrab_internal.ended[], p_node text)
returns void
language plpgsql as $$
begin
  if 'succeeded' <> any (b.outcomes) then
    perform pgrab_internal.incidents_begin(p_ended, p_node);
  end if;
  if 'succeeded' = any (b.outcomes) and exists (select from pgrab.incident) then
    perform pgrab_internal.incidents_end(b, p_ended, p_node);
  end if;
end $$;
comment on function pgrab_internal.alert(pgrab_internal.batch, pgrab_internal.ended[], text) is
  'Keeps pgrab.incident up to date, and inserts the alerts.';

-- Serves: the task pgrab.alert_late, which the first alert for late tasks makes.
create or replace function pgrab.alert_late() returns bigint
language plpgsql security definer as $$
declare
  v_id bigint;
  i pgrab_internal.incident;
  v_told bigint := 0;
begin
  delete from pgrab.incident x where not exists (select from pgrab.task t where t.id = x.task_id);
  for v_id in select o.id from pgrab.overdue o order by o.id loop
    insert into pgrab.incident (task_id, event, since, failures, succeeded_at)
    select t.id, 'late', statement_timestamp(), 0,
      pgrab_internal.last_success(row(t.*)::pgrab_internal.task)
    from pgrab.task t where t.id = v_id
    on conflict (task_id) do nothing returning * into i;
    if found then
      perform pgrab_internal.alert_tell('late', pgrab_internal.alert_task(v_id), i, null);
      v_told := v_told + 1;
    end if;
  end loop;
  return v_told;
end $$;
comment on function pgrab.alert_late() is
  'Reports tasks that have not succeeded within their expect_within, once each. Returns how many are new.';
