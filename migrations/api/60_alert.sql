-- Alerts: an incident begins with the first fire of a task that fails for good, and ends with the task's next
-- success.  It is reported once when it begins and once when it ends, by ordinary tasks:
--
--   pgrab.task.on_failure   for one task
--   pgrab.alert             for many, by owner, name and source
--
-- The finish only writes a row of pgrab_internal.notice, in its transaction: so what is recorded is reported,
-- and nothing else, and no alert can keep a finish waiting, however many there are.  One node goes through
-- the notices and inserts the tasks, a slice at a time (notices_tell()).
--
-- Cost: a batch of successes looks for incidents of its own tasks, if there may be any.

create or replace function pgrab_internal.template_refuse(p_value text, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023',
    message = format('the template of an alert cannot be %s', quote_literal(left(p_value, 200))),
    hint = p_hint;
end $$;
comment on function pgrab_internal.template_refuse is 'Refuses a template.';

-- Columns that a template leaves out have their defaults.
create or replace function pgrab_internal.template_check(p_template jsonb, p_owner text) returns void
language plpgsql as $$
declare
  c_columns constant text[] := '{kind,command,args,name,priority,timeout,max_attempts,backoff,backoff_max,
    delivery,require,limit_key,events}';
  c_defaults constant jsonb := pgrab_internal.apply_defaults() || '{"paused": false, "source": ""}';
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
      and p_template -> 'events' <@ '["failed", "parked", "recovered", "missed"]') then
    perform pgrab_internal.template_refuse(p_template ->> 'events',
      'events is an array of failed, parked, recovered, missed; the default is failed, parked.');
  end if;
  perform pgrab_internal.task_check(
    jsonb_populate_record(null::pgrab_internal.task, c_defaults || (p_template - 'events')));
  perform pgrab_internal.limit_check(p_template ->> 'limit_key', p_owner);
  perform pgrab_internal.kind_refuse(p_owner, coalesce(p_template ->> 'kind', 'sql'));
end $$;
comment on function pgrab_internal.template_check is 'Refuses a template from which no task could be made.';

-- Operators' alerts are told of everybody's tasks; a limit for each role keeps the list short.
create or replace function pgrab_internal.alert_changed() returns trigger
language plpgsql as $$
declare
  c_most constant integer := 100;
begin
  perform pgrab_internal.like_check('alert ' || quote_literal(new.name), p)
  from unnest(array[new.task_like, new.node_like]) p;
  if (select count(*) from pgrab.alert a where a.set_by = new.set_by and a.name <> new.name) >= c_most then
    raise exception using errcode = '54000',
      message = format('alert %s cannot be set: %s has %s already', quote_literal(new.name), new.set_by,
        c_most),
      hint = 'Delete some, or let one alert apply to more tasks.';
  end if;
  perform pgrab_internal.template_check(new.template - 'events', new.set_by);
  return new;
end $$;
comment on function pgrab_internal.alert_changed is
  'Checks an alert: its template, its patterns, and how many its role has.';
create or replace function pgrab_tool.alert_set_by() returns trigger
language plpgsql as $$
begin
  -- an operator who only switches an alert off and on does not make its template his own
  new.set_by := case when tg_op = 'UPDATE' and new.template = old.template then old.set_by
    else current_user end;
  return new;
end $$;
comment on function pgrab_tool.alert_set_by is
  'Trigger: the tasks that an alert inserts belong to the role that last wrote its template.';
create or replace trigger alert_05_set_by before insert or update on pgrab.alert
  for each row execute function pgrab_tool.alert_set_by();
-- Not when an alert by the clock is planned again: its limit, or the right to its kind, may be gone by then.
create or replace trigger alert_10_changed
  before insert or update of name, task_like, node_like, template on pgrab.alert
  for each row execute function pgrab_internal.alert_changed();

create or replace function pgrab_internal.alert_text(
  p_event text, p_called text, t pgrab_internal.task, i pgrab_internal.incident)
returns text
language sql stable
return case p_event
  when 'recovered' then case when i.failures = 0
    then format('%s has recovered: it was overdue since %s', p_called, pgrab_internal.cut(i.since))
    else format('%s has recovered: %s %s since %s', p_called, i.failures,
      case i.failures when 1 then 'failure' else 'failures' end, pgrab_internal.cut(i.since)) end
  when 'missed' then format('%s missed the fire of %s: %s', p_called, pgrab_internal.cut(i.since),
    t.last_error)
  when 'overdue' then format('%s is overdue: no success within %s', p_called, t.expect_within)
  when 'succeeded' then format('%s succeeded', p_called)
  when 'slow' then format('%s is slow: it has been running since %s; %s', p_called,
    pgrab_internal.cut(i.since), t.last_error)
  when 'waiting' then format('%s %s since %s', p_called, t.last_error, pgrab_internal.cut(i.since))
  when 'parked' then case when t.attempt = 0 and t.last_outcome = 'timed_out'
    then format('%s is parked: %s', p_called, t.last_error)
    else format('%s is parked after %s of %s attempts: %s', p_called, t.attempt, t.max_attempts,
    coalesce(t.last_error, t.last_outcome)) end
  else format('%s %s: %s', p_called, replace(coalesce(t.last_outcome, 'failed'), '_', ' '),
    coalesce(t.last_error, 'no reason given')) end;
comment on function pgrab_internal.alert_text is 'One line that says what has happened.';

-- All are strings, so that they fit anywhere.  What is no task has the same facts as one, so that one
-- template suits all.
create or replace function pgrab_internal.facts(p_event text, p_called text, p_id text, p_facts jsonb)
returns jsonb
language sql stable
begin atomic
  select jsonb_object_agg(f.key, coalesce(p_facts ->> f.key, f.value, ''))
  from (values
    ('event', p_event), ('task', p_called), ('id', p_id), ('key', null), ('name', null), ('kind', null),
    ('source', null), ('owner', null), ('outcome', null), ('since', null), ('failures', null),
    ('finished_at', null), ('node', null), ('database', current_database()), ('text', null),
    ('error', null)) f(key, value);
end;
comment on function pgrab_internal.facts is 'What an alert says, as strings: of a task, a limit or a node.';

create or replace function pgrab_internal.alert_facts(
  p_event text, t pgrab_internal.task, i pgrab_internal.incident, p_node text)
returns jsonb
language sql stable
begin atomic
  select pgrab_internal.facts(p_event, c.name, t.id::text, jsonb_build_object(
    'key', t.key, 'name', t.name, 'kind', t.kind, 'source', t.source, 'owner', t.owner,
    'outcome', t.last_outcome, 'since', to_json(i.since) #>> '{}', 'failures', i.failures,
    'finished_at', to_json(t.last_finished_at) #>> '{}', 'node', p_node,
    'text', pgrab_internal.alert_text(p_event, c.name, t, i),
    'error', case when p_event <> 'recovered' then t.last_error end))
    || case when t.traceparent is null then '{}'
      else jsonb_build_object('traceparent', t.traceparent) end
  from (select pgrab_internal.called(t.id, t.name, t.key) as name) c;
end;
comment on function pgrab_internal.alert_facts is 'What is known of an incident, as strings.';

-- Replaces {{name}} in any text of args, but never in a command: what a task has printed must not be
-- executed.  A text of a megabyte may name a fact 100000 times: args would be refused if they were longer.
create or replace function pgrab_internal.alert_fill(p_args jsonb, p_facts jsonb) returns jsonb
language plpgsql immutable as $$
declare
  c_most constant integer := 1048576;
  v_text text := p_args::text;
  v_times integer;
  f record;
begin
  if v_text like '%{{%' then
    for f in
      select '{{' || x.key || '}}' as named, substr(to_json(x.value)::text, 2,
        length(to_json(x.value)::text) - 2) as value
      from jsonb_each_text(p_facts) x order by x.key in ('text', 'error')
    loop
      continue when strpos(v_text, f.named) = 0;
      v_times := (length(v_text) - length(replace(v_text, f.named, ''))) / length(f.named);
      if octet_length(v_text) + v_times::bigint * octet_length(f.value) > c_most then
        raise exception using errcode = 'program_limit_exceeded',
          message = format('args name %s %s times, which makes more than 1 MiB', f.named, v_times);
      end if;
      v_text := replace(v_text, f.named, f.value);
    end loop;
  end if;
  return v_text::jsonb;
end $$;
comment on function pgrab_internal.alert_fill is 'Puts the facts where a template names them.';

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
comment on function pgrab_internal.alert_args is 'The args of the task that reports an incident.';

create or replace function pgrab_internal.alert_insert(p_template jsonb, p_owner text, p_facts jsonb)
returns void
language plpgsql as $$
declare
  v_task constant jsonb := jsonb_build_object('name', left('alert: ' || (p_facts ->> 'task'), 200))
    || (p_template - 'events') || jsonb_build_object('source', 'pgrab.alert', 'args',
      pgrab_internal.alert_args(coalesce(p_template ->> 'kind', 'sql'),
        coalesce(p_template -> 'args', '{}'), p_facts), 'traceparent', p_facts -> 'traceparent',
      'owner', p_owner);
  v_before text[];
begin
  v_before := pgrab_internal.call_begin('alert', p_owner);
  perform pgrab_tool.add(v_task);
  v_before := pgrab_internal.call_end(v_before);
end $$;
comment on function pgrab_internal.alert_insert is
  'Inserts the task that reports an incident; it belongs to the role that set the alert.';

-- ---------------------------------------------------------------------------------------- what is to be told

-- Returns whether somebody is to be told.
create or replace function pgrab_internal.notice_add(
  p_event text, t pgrab_internal.task, i pgrab_internal.incident, p_node text)
returns boolean
language plpgsql as $$
declare
  c_own constant jsonb := case when coalesce(t.on_failure -> 'events', '["failed", "parked"]') ? p_event
    then t.on_failure end;
begin
  if t.source = 'pgrab.alert' or (c_own is null and not exists (select from pgrab.alert)) then
    return false;
  end if;
  insert into pgrab_internal.notice (event, facts, task_id, template)
  values (p_event, pgrab_internal.alert_facts(p_event, t, i, p_node), t.id, c_own);
  perform pg_notify('pgrab', 'alerts');
  return true;
end $$;
comment on function pgrab_internal.notice_add is
  'Writes down an event of a task that people are to be told of.';

-- A task that has left is known only from its history; p_at: when its last run ended.
create or replace function pgrab_internal.alert_task(p_id bigint, p_at timestamptz)
returns pgrab_internal.task
language plpgsql stable set plan_cache_mode = force_custom_plan as $$
declare
  t pgrab_internal.task;
begin
  select * into t from pgrab.task x where x.id = any (array[p_id]);
  if not found then
    select x.* into t
    from (select y.* from pgrab.run y where y.task_id = p_id and y.finished_at = p_at offset 0) r
      cross join lateral jsonb_populate_record(null::pgrab_internal.task,
      coalesce(r.definition, '{}') || jsonb_build_object('id', r.task_id, 'name', r.name, 'key', r.key,
        'kind', r.kind, 'owner', r.owner, 'last_outcome', r.outcome, 'last_finished_at', r.finished_at,
        'traceparent', r.traceparent, 'source', coalesce(r.definition ->> 'source', ''))) x
    where r.ended is not null
    limit 1;
  end if;
  return t;
end $$;
comment on function pgrab_internal.alert_task is 'A task as it is, or as it ended.';

-- Serves: move_follow().  The size of an empty table is 0, however many dead rows an old snapshot would make
-- a query read; else each task is looked for by its key.  p_outcomes: which ones there are.  A plain one-shot
-- task that no alert covers has no incident: that it is parked says as much.  Successes are for a switch
-- outside that acts when it hears nothing; they are not one of the events of on_failure, because then each
-- finish would have to read it.
create or replace function pgrab_internal.alert(
  p_moved pgrab_internal.moved[], p_outcomes text[], p_node text)
returns void
language plpgsql as $$
declare
  v_told bigint;
begin
  if 'succeeded' <> any (p_outcomes) then
    with over as materialized (
      select row(k.*)::pgrab_internal.task as t, i.task_id is null as fresh
      from unnest(p_moved) e cross join lateral (
          select x.* from pgrab.task x where x.id = any (array[e.id]) offset 0) k
        left join pgrab.incident i on i.task_id = any (array[k.id])
      where pgrab_tool.run_is_failure(k.last_outcome) and (k.status = 'parked' or k.attempt = 0)
        and (k.on_failure is not null or k.schedule is not null or k.chain is not null
          or exists (select from pgrab.alert))),
    noted as (
      insert into pgrab.incident as x (task_id, event, since)
      select (o.t).id, case (o.t).status when 'parked' then 'parked' else 'failed' end,
        (o.t).last_finished_at
      from over o order by 1
      on conflict (task_id) do update
      set failures = x.failures + 1, event = excluded.event,
        since = case x.event when 'overdue' then excluded.since else x.since end
      returning x.*)
    select count(pgrab_internal.notice_add(n.event, o.t, row(n.*)::pgrab_internal.incident, p_node))
    into v_told from noted n join over o on (o.t).id = n.task_id where o.fresh;
  end if;
  if 'succeeded' = any (p_outcomes) and pg_relation_size('pgrab.incident') > 0 then
    with gone as (
      delete from pgrab.incident x using unnest(p_moved) f
      where f.outcome = 'succeeded' and x.task_id = any (array[f.id]) returning x.*, f.finished_at)
    select count(pgrab_internal.notice_add('recovered', pgrab_internal.alert_task(g.task_id, g.finished_at),
      row(g.task_id, g.event, g.since, g.failures, g.fault)::pgrab_internal.incident, p_node))
    into v_told from gone g;
  end if;
  if 'succeeded' = any (p_outcomes) and exists (
    select from pgrab.alert a where a.enabled and 'succeeded' = any (a.events)) then
    perform pgrab_internal.notice_add('succeeded', t,
      (e.id, 'succeeded', e.finished_at, 0, null)::pgrab_internal.incident, p_node)
    from unnest(p_moved) e cross join lateral pgrab_internal.alert_task(e.id, e.finished_at) t
    where e.outcome = 'succeeded' and exists (
      select from pgrab_internal.alerts_for('succeeded', jsonb_build_object('owner', t.owner, 'name', t.name,
        'key', t.key, 'source', t.source), null, null));
  end if;
end $$;
comment on function pgrab_internal.alert is
  'Begins or prolongs the incidents of tasks whose fire has failed for good with one of these runs, ends '
  'those of tasks that have succeeded, and writes down what people are to be told.';

-- Serves: misfire_one().  p_fire: the first fire that was missed.  At most once an hour for a task: one that
-- fires each second would fill the events.
create or replace function pgrab_internal.missed(t pgrab_internal.task, p_fire timestamptz, p_why text)
returns void
language plpgsql as $$
begin
  if exists (select from pgrab.event e
      where e.task_id = t.id and e.what = 'missed' and e.at > statement_timestamp() - interval '1 hour') then
    return;
  end if;
  perform pgrab_internal.event('missed', session_user, t,
    jsonb_build_object('fire_at', p_fire, 'why', p_why));
  t.last_outcome := 'missed';
  t.last_error := p_why;
  perform pgrab_internal.notice_add('missed', t, (t.id, 'missed', p_fire, 0, null)::pgrab_internal.incident,
    null);
end $$;
comment on function pgrab_internal.missed is 'Records that fires of a task were missed, once an hour.';

-- Serves: tell.sql.
create or replace function pgrab_internal.overdue_tick() returns bigint
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  c_most constant integer := 200;
  v_found bigint;
begin
  if not exists (select from pgrab.alert a where a.enabled and 'overdue' = any (a.events))
      or not pgrab_internal.duty_take('overdue', '50 s') then
    return 0;
  end if;
  with found as (
    insert into pgrab.incident (task_id, event, since, failures)
    select o.id, 'overdue', statement_timestamp(), 0
    from (
      select x.id from pgrab.overdue x
      where not exists (select from pgrab.incident i where i.task_id = any (array[x.id])) limit c_most) o
      cross join lateral ( -- a session that is writing an incident has the task locked
        select from pgrab.task t where t.id = any (array[o.id]) for update skip locked) l
    on conflict (task_id) do nothing returning *)
  select count(pgrab_internal.notice_add('overdue', row(t.*)::pgrab_internal.task,
    row(f.*)::pgrab_internal.incident, null)) into v_found
  from found f join pgrab.task t on t.id = any (array[f.task_id]);
  if v_found = c_most then -- there may be more
    update pgrab.duty d set done_at = '-infinity' where d.duty = 'overdue';
  end if;
  return v_found;
end $$;
comment on function pgrab_internal.overdue_tick is
  'Once a minute, on one node: tasks that have not succeeded within their expect_within, each once.';

-- What it waits for is told as its error.
create or replace function pgrab_internal.waiting_notice(
  p_id bigint, p_name text, p_since timestamptz, p_after interval) returns boolean
language plpgsql as $$
declare
  t pgrab_internal.task;
  v_facts jsonb;
begin
  select x.* into t from pgrab.task x
  where x.id = any (array[p_id]) and x.source <> 'pgrab.alert'
    and exists (select from pgrab.waits v where v.id = p_id);
  t.last_error := case when p_name is null then 'waits for the answer to its request'
    when p_name = '(members)' then 'waits for its members' else format('waits for signal %L', p_name) end;
  v_facts := jsonb_build_object('after', p_after) || pgrab_internal.alert_facts('waiting', t,
    (t.id, 'waiting', p_since, 0, null)::pgrab_internal.incident, null);
  insert into pgrab_internal.notice (event, facts, task_id)
  select 'waiting', v_facts, t.id
  where t.id is not null and exists (select from pgrab_internal.alerts_for('waiting', v_facts, null, null));
  return found;
end $$;
comment on function pgrab_internal.waiting_notice is
  'Writes down that a task waits for long, if an alert with that `after` is for it.';

-- Shorter times first, so that a wait that has been long for all of them is told of by all.  Of many it goes
-- on with the rest at the next call.
-- Serves: tell.sql.
create or replace function pgrab_internal.waiting_tick() returns bigint
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  c_most constant integer := 1000;
  c_afters constant interval[] := array(
    select distinct a.after from pgrab.alert a where a.enabled and 'waiting' = any (a.events) order by 1);
  v_after interval;
  v_found bigint;
  v_told bigint;
  v_sum bigint := 0;
begin
  if c_afters = '{}' or not pgrab_internal.duty_take('waiting', '50 s') then
    return 0;
  end if;
  foreach v_after in array c_afters loop
    -- the told of a wait is one of few values, and a search begins at each: so it reads only what it reports
    with recursive told(value) as (
      select min(w.told) from pgrab.wait w
      union all
      select (select min(w.told) from pgrab.wait w where w.told > x.value) from told x
      where x.value < v_after),
    longer as (
      update pgrab.wait w set told = v_after
      where w.task_id = any (array(
        select l.task_id from told x cross join lateral (
          select y.task_id from pgrab.wait y
          where y.told = x.value and y.since <= statement_timestamp() - v_after
          order by y.since limit c_most for update skip locked) l
        where x.value < v_after limit c_most))
      returning w.task_id, w.name, w.since)
    select count(*), count(*) filter (
      where pgrab_internal.waiting_notice(w.task_id, w.name, w.since, v_after)) into v_found, v_told
    from longer w;
    v_sum := v_sum + v_told;
    if v_found = c_most then
      update pgrab.duty d set done_at = '-infinity' where d.duty = 'waiting';
    end if;
  end loop;
  return v_sum;
end $$;
comment on function pgrab_internal.waiting_tick is
  'Once a minute, on one node: tasks that have waited for longer than some alert permits, once for each '
  '`after`.';

-- -------------------------------------------------------------------------------------------------- telling

create or replace function pgrab_internal.alert_covers(
  p_owner text, p_source text, p_like text, p_facts jsonb)
returns boolean
language sql stable
return coalesce(p_owner = p_facts ->> 'owner', true) and coalesce(p_source = p_facts ->> 'source', true)
  and coalesce(coalesce(nullif(p_facts ->> 'name', ''), p_facts ->> 'key') like p_like, true);
comment on function pgrab_internal.alert_covers is
  'Is this task one of those that an alert is for, if its role may hear of it?';

-- Asked once, and not for each alert: a finish waits for it.
create or replace function pgrab_internal.alert_setters() returns text[]
language sql stable
return array(
  select s.set_by from (select distinct a.set_by from pgrab.alert a where a.enabled) s
  where pgrab_internal.may_operate(s.set_by));
comment on function pgrab_internal.alert_setters is 'Whose alerts are for everybody''s tasks.';

-- In the order of their names, so that p_after says how far one has come; a task's own template is first.
-- What is told by the clock has its template, too.
create or replace function pgrab_internal.alerts_for(
  p_event text, p_facts jsonb, p_template jsonb, p_after text)
returns table (name text, template jsonb, owner text)
language sql stable
begin atomic
  select '', p_template, p_facts ->> 'owner' where p_template is not null and p_after is null
  union all
  (select a.name, a.template, a.set_by from pgrab.alert a
  where a.name > coalesce(p_after, '') and a.enabled and p_event = any (a.events)
    and (p_event <> 'waiting' or a.after = (p_facts ->> 'after')::interval)
    and case when p_event in ('node_down', 'node_up')
      then a.set_by = any ((select pgrab_internal.alert_setters())::text[])
        and coalesce(p_facts ->> 'name' like a.node_like, true)
      else p_event not in ('alive', 'digest')
        and pgrab_internal.alert_covers(a.owner, a.source, a.task_like, p_facts)
        and (a.set_by = p_facts ->> 'owner'
          or a.set_by = any ((select pgrab_internal.alert_setters())::text[])) end
  order by a.name);
end;
comment on function pgrab_internal.alerts_for is
  'The templates that apply to an event, behind the alert p_after.';

-- What is no fault of the template is tried again: then true is returned, and nothing was inserted.
create or replace function pgrab_internal.alert_try(
  p_template jsonb, p_owner text, p_facts jsonb, p_task bigint, p_node bigint)
returns boolean
language plpgsql as $$
begin
  perform pgrab_internal.alert_insert(p_template, p_owner, p_facts);
  return false;
exception
  when lock_not_available or transaction_rollback or insufficient_resources or object_in_use then
    return true;
  when others then
    if sqlstate = '54000' and sqlerrm like 'the quota of % is full: %' then
      return true;
    end if;
    -- unless the row is locked
    update pgrab.incident i set fault = left(sqlerrm, 1000)
    where i.task_id = any (array(
      select x.task_id from pgrab.incident x where x.task_id = p_task for update skip locked));
    update pgrab.node_incident i set fault = left(sqlerrm, 1000)
    where i.node_id = any (array(
      select x.node_id from pgrab.node_incident x where x.node_id = p_node for update skip locked));
    raise warning 'an alert for % could not be inserted: %', p_facts ->> 'task', sqlerrm;
    return false;
end $$;
comment on function pgrab_internal.alert_try is
  'Inserts the task of one alert. True: not now, because something was locked, or a quota is full.';

-- In a notice of its own, so that others are told of it meanwhile.
create or replace function pgrab_internal.notice_again(p_id bigint, p_after text, p_alert text) returns void
language sql
begin atomic
  insert into pgrab_internal.notice (event, facts, template, after, alert, task_id, node_id, tries, next_at)
  select n.event, n.facts, n.template, p_after, p_alert, n.task_id, n.node_id, 1,
    clock_timestamp() + interval '1 s'
  from pgrab_internal.notice n where n.id = p_id;
end;
comment on function pgrab_internal.notice_again is 'One alert of a notice that could not be inserted now.';

-- The caller has the row locked.  Between its slices a notice lets the others go first.  The wait for what
-- cannot be inserted now grows to a minute, and ends after a day.
create or replace function pgrab_internal.notice_tell(p_id bigint) returns void
language plpgsql as $$
declare
  c_slice constant integer := 20;
  c_until constant timestamptz := clock_timestamp() + interval '200 ms';
  c_tries constant integer := 1440;
  n record;
  a record;
  v_told integer := 0;
begin
  select * into n from pgrab_internal.notice x where x.id = p_id;
  for a in
    select * from pgrab_internal.alerts_for(n.event, n.facts, n.template, n.after) x
    where x.name = n.alert or n.alert is null limit c_slice
  loop
    if pgrab_internal.alert_try(a.template, a.owner, n.facts, n.task_id, n.node_id) then
      if n.alert is null then
        perform pgrab_internal.notice_again(n.id, n.after, a.name);
      elsif n.tries < c_tries then
        update pgrab_internal.notice x
        set tries = x.tries + 1,
          next_at = clock_timestamp() + least(power(2, least(x.tries, 6)), 60) * interval '1 s'
        where x.id = p_id;
        return;
      else
        raise warning 'an alert for % could not be inserted for a day', n.facts ->> 'task';
      end if;
    end if;
    n.after := a.name;
    v_told := case when clock_timestamp() > c_until then c_slice else v_told + 1 end;
    exit when v_told = c_slice;
  end loop;
  if v_told < c_slice then
    delete from pgrab_internal.notice x where x.id = p_id;
  else
    update pgrab_internal.notice x set after = n.after, next_at = clock_timestamp() where x.id = p_id;
  end if;
end $$;
comment on function pgrab_internal.notice_tell is
  'Inserts the next alerts of a notice: at most 20, for 200 ms.';

-- Serves: tell.sql.  left_over: notices are left, so ask again; at once if some were told now.
create or replace function pgrab_internal.notices_tell(out told bigint, out left_over boolean)
language plpgsql set enable_seqscan = off set jit = off set lock_timeout = '100ms' as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '200 ms';
  v_id bigint;
begin
  told := 0;
  loop
    select x.id into v_id from pgrab_internal.notice x
    where x.next_at <= clock_timestamp() order by x.next_at limit 1 for update skip locked;
    exit when not found;
    perform pgrab_internal.notice_tell(v_id);
    told := told + 1;
    exit when clock_timestamp() > c_until;
  end loop;
  left_over := exists (select from pgrab_internal.notice);
end $$;
comment on function pgrab_internal.notices_tell is
  'Inserts the tasks that tell people of what has happened, for 200 ms.';
