-- The definition of a task as JSON, tasks made and edited from JSON, and earlier definitions.

create or replace function pgrab_internal.edges_above(p_id bigint) returns jsonb
language plpgsql stable parallel safe as $$
begin
  return (
    select jsonb_build_object('parents',
      jsonb_agg(jsonb_build_object('parent_id', e.parent_id, 'run_if', e.run_if)))
    from pgrab.edge e where e.child_id = p_id having count(*) > 0);
end $$;
comment on function pgrab_internal.edges_above is
  'The edges of a link besides its parent_id, as its definition keeps them. Null: there are none.';

create or replace function pgrab_internal.definition_rare(t pgrab_internal.task) returns jsonb
language plpgsql stable parallel safe as $$
begin
  return jsonb_strip_nulls(jsonb_build_object(
      'key', t.key, 'command', nullif(t.command, ''), 'source', nullif(t.source, ''),
      'schedule', t.schedule, 'calendar', t.calendar, 'on_closed', nullif(t.on_closed, 'skip'),
      'timezone', nullif(t.timezone, 'UTC'), 'misfire', nullif(t.misfire, 'once'),
      'misfire_after', nullif(t.misfire_after, '1 minute'), 'misfire_limit', nullif(t.misfire_limit, 100),
      'starts_at', t.starts_at, 'ends_at', t.ends_at, 'max_runs', t.max_runs,
      'jitter', nullif(t.jitter, '0'), 'priority', nullif(t.priority, 0),
      'timeout', nullif(t.timeout, '1 hour'), 'max_attempts', nullif(t.max_attempts, 3),
      'backoff', nullif(t.backoff, '5 s'), 'backoff_max', nullif(t.backoff_max, '1 hour'),
      'delivery', nullif(t.delivery, 'at_least_once'), 'preemptible', nullif(t.preemptible, false),
      'parent_id', t.parent_id,
      'run_if', nullif(t.run_if, 'success'), 'require', nullif(t.require, '{}'), 'prefer', t.prefer,
      'failover_after', t.failover_after, 'share_key', t.share_key, 'limit_key', t.limit_key,
      'slots', nullif(t.slots, 1),
      'expect_within', t.expect_within, 'slow_after', t.slow_after, 'stall_after', t.stall_after,
      'keep', t.keep, 'batch', t.batch, 'wait_for', t.wait_for, 'wait_timeout', t.wait_timeout,
      'signal_by', t.signal_by))
    -- nulls inside these are kept
    || case when t.args = '{}' then '{}' else jsonb_build_object('args', t.args) end
    || case when t.on_failure is null then '{}' else jsonb_build_object('on_failure', t.on_failure) end;
end $$;
comment on function pgrab_internal.definition_rare is
  'definition_own() for tasks in which columns that few people set are not the default.';

-- Evaluated for every task that ends.  So it is an expression without a subquery, which PostgreSQL inlines,
-- and what is needed for few tasks is in a function that it does not: an expression costs its size each time
-- a statement starts, whatever is evaluated.
create or replace function pgrab_internal.definition_own(t pgrab_internal.task) returns jsonb
language sql stable parallel safe
return case
  when t.max_attempts <> 3 or t.priority <> 0 or t.timeout <> '1 hour' or t.delivery <> 'at_least_once'
    or t.preemptible or t.require <> '{}' or t.backoff <> '5 s'
    or t.backoff_max <> '1 hour' or t.misfire <> 'once'
    or t.misfire_after <> '1 minute' or t.misfire_limit <> 100 or t.timezone <> 'UTC' or t.jitter <> '0'
    or t.run_if <> 'success' or t.source <> '' or t.slots <> 1 or num_nonnulls(t.schedule, t.starts_at,
      t.ends_at, t.max_runs, t.calendar, t.limit_key, t.on_failure, t.expect_within, t.slow_after,
      t.stall_after, t.keep, t.wait_for, t.wait_timeout, t.signal_by, t.prefer) > 0
  then pgrab_internal.definition_rare(t)
  when t.command = '' and t.args = '{}' and num_nonnulls(t.key, t.share_key, t.parent_id, t.chain,
    t.batch) = 0 then null
  else case when t.command = '' then '{}' else jsonb_build_object('command', t.command) end
    || case when t.args = '{}' then '{}' else jsonb_build_object('args', t.args) end
    || case when t.key is null then '{}' else jsonb_build_object('key', t.key) end
    || case when t.share_key is null then '{}' else jsonb_build_object('share_key', t.share_key) end
    || case when t.parent_id is null then '{}' else jsonb_build_object('parent_id', t.parent_id) end
    || case when t.batch is null then '{}' else jsonb_build_object('batch', t.batch) end
  end;
comment on function pgrab_internal.definition_own is
  'pgrab_internal.definition() without the rows of pgrab.edge.';

create or replace function pgrab_internal.definition(t pgrab_internal.task) returns jsonb
language sql stable parallel safe
return case when t.chain is null then pgrab_internal.definition_own(t)
  else pgrab_internal.definition_own(t) || coalesce(pgrab_internal.edges_above(t.id), '{}') end;
comment on function pgrab_internal.definition is
  'The definition of a task as JSON, without defaults: kept in the history when the task ends. Null: all '
  'default.';

create or replace function pgrab.definition(p_id bigint) returns jsonb
language sql stable
return (select pgrab_internal.definition(row(t.*)::pgrab_internal.task) from pgrab.task t where t.id = p_id);
comment on function pgrab.definition(bigint) is
  'The definition of a live task as JSON, without defaults. Null: all default. For tasks that have ended and '
  'earlier versions there is pgrab.definition_of().';

-- ----------------------------------------------------------------------------------------- tasks from JSON

-- Parsed (begin atomic), because callers of add() and edit() have no right to the schema of the type.
create or replace function pgrab_tool.as_task(p_task jsonb) returns pgrab_internal.task
language sql stable
return jsonb_populate_record(null::pgrab_internal.task, p_task);
comment on function pgrab_tool.as_task is 'A JSON object of columns of pgrab.task as a row.';

-- These have the rights of their caller, as any INSERT and UPDATE: a user's, for pgrab.add() and
-- edit(); those of pgrab itself where it has been asked, and an owner is named.
create or replace function pgrab_tool.add(p_task jsonb, p_each jsonb default '[{}]')
returns setof bigint
language plpgsql as $$
begin
  return query execute (
    select format('insert into pgrab.task (%s) select %1$s from '
      'jsonb_populate_recordset(pgrab_tool.as_task($1), $2) returning id', string_agg(quote_ident(k), ', '))
    from jsonb_object_keys(p_task || (p_each -> 0)) k) using p_task, p_each;
end $$;
comment on function pgrab_tool.add is
  'Inserts tasks, given as a JSON object of columns of pgrab.task, and returns their ids. p_each: an object '
  'for each of them, all of the same columns, with what it has of its own.';

create or replace function pgrab_tool.edit(p_id bigint, p_changes jsonb)
returns setof pgrab_internal.task
language plpgsql as $$
begin
  return query execute (
    select format('update pgrab.task t set %s from pgrab_tool.as_task($1) w '
      'where t.id = $2 returning t.*', string_agg(format('%I = w.%1$I', k), ', '))
    from jsonb_object_keys(p_changes) k) using p_changes, p_id;
end $$;
comment on function pgrab_tool.edit is
  'Writes columns of a task, given as a JSON object, with the rights of its caller; returns the '
  'row before it is planned again.';

-- ------------------------------------------------------------------------------------- earlier definitions

create or replace function pgrab_internal.definition_whole(t pgrab_internal.task) returns jsonb
language sql stable parallel safe
return jsonb_strip_nulls(jsonb_build_object('kind', t.kind, 'name', t.name))
  || coalesce(pgrab_internal.definition_own(t), '{}');
comment on function pgrab_internal.definition_whole is
  'What is kept in pgrab.definition: the definition with kind and name.';

create or replace function pgrab_internal.definition_end(t pgrab_internal.task, p_definition jsonb)
returns void
language plpgsql as $$
begin
  update pgrab.definition d set until = clock_timestamp()
  where d.task_id = t.id and d.version <= t.version and d.until is null;
  if not found then
    insert into pgrab.definition (task_id, version, since, until, role, owner, definition)
    values (t.id, 0, t.created_at, clock_timestamp(), t.owner, t.owner, p_definition)
    on conflict do nothing;
  end if;
end $$;
comment on function pgrab_internal.definition_end is 'Keeps the definition that a task had, as ended now.';

-- Not for a task that has never run, because there is no run to look up; but a schedule keeps its history
-- from the start.  The new definition begins with the next version, even while a run with this one goes on.
create or replace function pgrab_internal.definition_edited(o pgrab_internal.task, t pgrab_internal.task)
returns void
language plpgsql as $$
declare
  v_old jsonb;
  v_new jsonb;
begin
  if not (o.schedule is not null or t.schedule is not null or o.runs > 0
      or pgrab_internal.has_begun(o.attempt, o.steps)
      or exists (select from pgrab.definition d where d.task_id = t.id)) then
    return;
  end if;
  v_old := pgrab_internal.definition_whole(o);
  v_new := pgrab_internal.definition_whole(t);
  if v_old = v_new then
    return;
  end if;
  perform pgrab_internal.definition_end(t, v_old);
  insert into pgrab.definition (task_id, version, since, role, owner, definition)
  values (t.id, t.version + 1, clock_timestamp(), pgrab_internal.caller(), t.owner, v_new)
  on conflict (task_id, version) do update set since = excluded.since, role = excluded.role,
    definition = excluded.definition;
end $$;
comment on function pgrab_internal.definition_edited is
  'Keeps the definition that a task had before an edit, and the one it has now.';

-- What was running has its definition in the history.
create or replace function pgrab_internal.definition_deleted(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  if (t.schedule is not null or t.runs > 0 or pgrab_internal.has_begun(t.attempt, t.steps))
    and not pgrab_internal.under_way(t.status, t.incarnation) then
    perform pgrab_internal.definition_end(t, pgrab_internal.definition_whole(t));
  end if;
end $$;
comment on function pgrab_internal.definition_deleted is
  'Keeps the definition of a task that a user has deleted.';

-- Without a time, a lookup plans, locks and probes each day of the history.  Most lookups are for what has
-- ended lately, so the newest days are asked first, and with a plan for just these days.  No run is
-- older than its task.
create or replace function pgrab.last_run(
  p_id bigint, p_which text default 'last', p_version bigint default null)
returns setof pgrab_internal.run
language plpgsql stable set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  c_now constant timestamptz := clock_timestamp();
  c_born constant timestamptz := (select t.created_at from pgrab.task t where t.id = any (array[p_id]));
  v_from timestamptz;
  v_to timestamptz := 'infinity';
begin
  foreach v_from in array array[c_now - interval '1 day', c_now - interval '8 days',
    c_now - interval '64 days', '-infinity'] loop
    return query select r.* from (
      select x.* from pgrab.run x where x.task_id = p_id and x.finished_at >= v_from and x.finished_at < v_to
      offset 0) r
    where (p_version is null or r.version = p_version) and case p_which when 'ended' then r.ended is not null
      when 'ran' then r.outcome not in ('skipped', 'missed') else true end
    order by r.finished_at desc, r.fire_at desc limit 1;
    exit when found or v_from < c_born;
    v_to := v_from;
  end loop;
end $$;
comment on function pgrab.last_run(bigint, text, bigint) is
  'The last row that the history has of a task; looks at the newest days first. p_which: last; ended: the '
  'one with which the task ended; ran: not skipped or missed. p_version: only this run.';

create or replace function pgrab.definition_of(p_task_id bigint, p_version bigint) returns jsonb
language sql stable
return coalesce(
  (select d.definition from pgrab.definition d
   where d.task_id = p_task_id and d.version <= p_version order by d.version desc limit 1),
  (select jsonb_strip_nulls(jsonb_build_object('kind', r.kind, 'name', r.name))
     || coalesce(r.definition, '{}') from pgrab.last_run(p_task_id, 'ended') r),
  (select pgrab_internal.definition_whole(row(t.*)::pgrab_internal.task)
   from pgrab.task t where t.id = p_task_id));
comment on function pgrab.definition_of(bigint, bigint) is
  'The definition that a run had: select pgrab.definition_of(r.task_id, r.version) from pgrab.run r. Works '
  'for tasks that were edited or deleted since. Defaults are left out.';

-- An edit takes a task back from a node that has not started it: one that was edited since it was claimed is
-- running, or was.
create or replace function pgrab_internal.definition_ran(t pgrab_internal.task) returns jsonb
language plpgsql stable as $$
begin
  if t.updated_at > t.claimed_at then
    return pgrab.definition_of(t.id, t.version) - '{kind,name}'::text[]
      || coalesce(pgrab_internal.edges_above(t.id), '{}');
  end if;
  return pgrab_internal.definition(t);
end $$;
comment on function pgrab_internal.definition_ran is
  'pgrab_internal.definition() as it was when the run of this task was started.';

-- If not, that run cannot be resumed: what it ran is gone, and a run of what was written instead is planned.
create or replace function pgrab_internal.text_stays(t pgrab_internal.task) returns boolean
language plpgsql stable as $$
declare
  c_now constant jsonb := pgrab_internal.definition_whole(t);
  c_ran constant jsonb :=
    case when t.updated_at > t.claimed_at then pgrab.definition_of(t.id, t.version) else c_now end;
begin
  return (c_ran -> 'kind', c_ran -> 'command', c_ran -> 'args')
    is not distinct from (c_now -> 'kind', c_now -> 'command', c_now -> 'args');
end $$;
comment on function pgrab_internal.text_stays is
  'Does the run of a task that is running still run what its row says?';

-- A list of texts that needs no quoting.
create or replace function pgrab_internal.netstring(p_text text) returns text
language sql immutable strict parallel safe
return octet_length(convert_to(p_text, 'UTF8')) || ':' || p_text || ',';
comment on function pgrab_internal.netstring is 'A text with its length in bytes before it.';
