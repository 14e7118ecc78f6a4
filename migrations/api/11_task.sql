-- Triggers of pgrab.task: how a row is completed, how an edit takes effect, when the bell rings.

create or replace function pgrab.shard(p_id bigint) returns smallint
language sql immutable strict parallel safe
return (hashint8extended(p_id, 0) & 1023)::smallint;
comment on function pgrab.shard(bigint) is
  'Which of the 1024 virtual buckets a task belongs to. Negative, huge and consecutive ids spread evenly.';

-- Tells sleeping nodes to look now.  Only a hint: everything works without it, at most `poll` later.  The
-- payload names shards, so that a look for one task reads one shard.  An empty payload stands for many
-- shards: look everywhere.
create or replace function pgrab_internal.ring(p_shards smallint[]) returns void
language plpgsql set enable_seqscan = off as $$
begin
  if exists (select from pgrab.node n where n.bell and n.state = 'up') then
    perform pg_notify('pgrab',
      case when cardinality(p_shards) <= 16 then array_to_string(p_shards, ' ') else '' end);
  end if;
end $$;
comment on function pgrab_internal.ring(smallint[]) is
  'The doorbell: a NOTIFY on channel pgrab. Sent only when a node sleeps, because all transactions that '
  'NOTIFY commit one after the other.';

-- run_at of a task with a schedule: the one given, or its first fire.
create or replace function pgrab_internal.plan_first(t pgrab_internal.task, p_given timestamptz)
returns timestamptz
language plpgsql as $$
declare
  v_first timestamptz := coalesce(p_given, pgrab_internal.first_fire(t));
begin
  if v_first is null then
    perform pgrab_internal.refuse('schedule', t.schedule, 'It does not fire again before the year 10000.');
  elsif v_first > t.ends_at then
    perform pgrab_internal.refuse('ends_at', t.ends_at::text,
      format('The first fire of %s would be %s; ends_at must be later.',
        pgrab_internal.schedule_quote(t.schedule), v_first));
  elsif t.fires >= t.max_runs then
    perform pgrab_internal.refuse('max_runs', t.max_runs::text,
      format('It has fired %s times already. Delete the task to end it.', t.fires));
  end if;
  return v_first;
end $$;
comment on function pgrab_internal.plan_first(pgrab_internal.task, timestamptz) is
  'When a task with a schedule is first due; refuses a task that would never fire.';

create or replace function pgrab_internal.as_new(t pgrab_internal.task) returns pgrab_internal.task
language plpgsql as $$
begin
  t.version := (date_part('epoch', now()) * 1e6)::bigint;
  t.created_at := now();
  t.updated_at := now();
  t.status := 'scheduled';
  t.node_id := null;
  t.incarnation := null;
  t.attempt := 0;
  t.settled := false;
  t.claimed_at := null;
  t.started_at := null;
  t.runs := 0;
  t.fires := 0;
  t.failures := 0;
  t.last_outcome := null;
  t.last_error := null;
  t.last_finished_at := null;
  t.chain := null;
  t.needs := null;
  t.met := null;
  return t;
end $$;
comment on function pgrab_internal.as_new(pgrab_internal.task) is
  'A task with the system''s columns as in a new one: values that an INSERT gives for them are ignored.';

create or replace function pgrab_internal.task_insert() returns trigger
language plpgsql as $$
declare
  t constant pgrab_internal.task := new;
begin
  perform pgrab_internal.task_check(t);
  perform pgrab_internal.owner_bounds(t, t.owner);
  new := pgrab_internal.as_new(t);
  return new;
end $$;
comment on function pgrab_internal.task_insert() is
  'Checks a new task, unless all of its definition is trivially valid.';

-- Triggers that must know who acts run with the caller's rights, and come before those that run with the
-- rights of pgrab's owner, where current_user is always the owner.
create or replace function pgrab.task_owner() returns trigger
language plpgsql as $$
begin
  new.owner := current_user;
  return new;
end $$;
comment on function pgrab.task_owner() is
  'Trigger: a task belongs to the role that inserts it, whatever the row says.';
create trigger task_05_owner before insert on pgrab.task for each row
  when (new.owner is distinct from current_user and not pgrab_internal.in_call())
  execute function pgrab.task_owner();

-- Skipped for a definition in which nothing can be wrong, when the INSERT has left the system's columns
-- alone: 10 us a row instead of 37.  A null anywhere makes the condition null, and the trigger runs.
create trigger task_10_insert before insert on pgrab.task for each row
when ((
  new.kind in ('sql', 'shell', 'noop') and new.args = '{}' and new.require = '{}' and new.on_failure is null
  and octet_length(new.command) <= 1048576
  and case new.kind when 'noop' then new.command = '' else btrim(new.command, E' \t\r\n') <> '' end
  and octet_length(coalesce(new.name, '-')) between 1 and 1000
  and octet_length(coalesce(new.key, '-')) between 1 and 1000
  and octet_length(new.source) <= 1000 and new.paused is not null and new.priority < 10
  and new.timeout = '1 hour' and new.max_attempts = 3 and new.backoff = '5 s' and new.backoff_max = '1 hour'
  and new.delivery = 'at_least_once' and new.misfire = 'once' and new.misfire_after = '1 minute'
  and new.misfire_limit = 100 and new.jitter = '0' and new.run_if = 'success' and new.timezone = 'UTC'
  and num_nonnulls(new.starts_at, new.ends_at, new.max_runs, new.expect_within, new.stall_after, new.keep) = 0
  -- the system's columns
  and new.version = (date_part('epoch', now()) * 1e6)::bigint and new.status = 'scheduled'
  and new.created_at = now() and new.updated_at = now() and not new.settled
  and new.attempt = 0 and new.runs = 0 and new.fires = 0 and new.failures = 0
  and num_nonnulls(new.node_id, new.incarnation, new.claimed_at, new.started_at, new.last_finished_at,
    new.chain, new.needs, new.met, new.last_outcome, new.last_error) = 0
  ) is not true)
execute function pgrab_internal.task_insert();

-- The default of run_at is a microsecond after now(), which tells it apart from a now() in the statement.
create or replace function pgrab_internal.task_plan() returns trigger
language plpgsql as $$
declare
  c_given constant timestamptz := nullif(new.run_at, now() + interval '1 us');
  t pgrab_internal.task := new;
begin
  t.run_at := coalesce(c_given, now());
  perform pgrab_internal.plan_check(t);
  if t.limit_key is not null then
    perform pgrab_internal.limit_check(t.limit_key, t.owner);
  end if;
  if t.schedule is not null then
    t.run_at := pgrab_internal.plan_first(t, c_given);
  end if;
  t.fire_at := t.run_at;
  t.due_at := case when not t.paused then t.run_at + pgrab_internal.jitter_of(t.id, t.jitter) end;
  if t.parent_id is not null then
    t := pgrab_internal.chain_join(t);
  end if;
  new := t;
  return new;
end $$;
comment on function pgrab_internal.task_plan() is 'Plans a new task that is not simply due now.';

create trigger task_20_plan before insert on pgrab.task for each row
when ((
  new.run_at = now() + interval '1 us' and new.due_at = new.run_at and new.fire_at = new.run_at
  and new.jitter = '0' and not new.paused and num_nonnulls(new.schedule, new.limit_key, new.parent_id) = 0
  ) is not true)
execute function pgrab_internal.task_plan();

-- When the schedule has changed, the task is planned from now on: a run_at that was not touched belongs to
-- the old schedule.
create or replace function pgrab_internal.plan_edit(o pgrab_internal.task, n pgrab_internal.task)
returns timestamptz
language plpgsql as $$
declare
  c_same constant boolean :=
    (n.schedule, n.timezone, n.starts_at) is not distinct from (o.schedule, o.timezone, o.starts_at);
begin
  if n.schedule is null
    or c_same and (n.ends_at, n.max_runs) is not distinct from (o.ends_at, o.max_runs) then
    -- The insert half of an upsert has worked out when a new task would fire; this one has a plan already.
    return case when c_same and n.schedule is not null and n.run_at <> o.run_at
        and n.run_at in (now() + interval '1 us', pgrab_internal.first_fire(n))
      then o.run_at else n.run_at end;
  end if;
  return pgrab_internal.plan_first(n, case when n.run_at <> o.run_at or c_same then n.run_at end);
end $$;
comment on function pgrab_internal.plan_edit(pgrab_internal.task, pgrab_internal.task) is
  'The run_at of a task that a user has edited.';

-- An edit of the definition.  A task that has not started is planned again, and a node that had claimed it
-- finds a new version.  A running one finishes as it was started, because its fence (version, incarnation) is
-- left alone.  When the system plans a task again (re-arming, misfire) it raises the version itself; that is
-- not an edit, and the trigger ignores it.  It is an AFTER trigger for the reason given in 0001_schema.sql.
-- It reads the row as it is now, because the statement, or a user's trigger, may have edited it twice.
create or replace function pgrab_internal.task_edited() returns trigger
language plpgsql as $$
declare
  o constant pgrab_internal.task := old;
  t pgrab_internal.task;
  v_planned boolean;
begin
  if pgrab_internal.link_ending() then
    return null; -- task_replan(), below
  end if;
  select * into t from pgrab.task x where x.id = new.id;
  if not found then
    return null;
  end if;
  perform pgrab_internal.event_edit(o, t);
  perform pgrab_internal.definition_edited(o, t);
  perform pgrab_internal.task_check(t);
  perform pgrab_internal.plan_check(t);
  if t.limit_key is distinct from o.limit_key then
    perform pgrab_internal.limit_check(t.limit_key, t.owner);
  end if;
  if t.kind <> o.kind then
    perform pgrab_internal.kind_refuse(t.owner, t.kind);
  end if;
  if (t.priority, t.misfire_limit) is distinct from (o.priority, o.misfire_limit) then
    perform pgrab_internal.owner_bounds(t, pgrab_internal.caller());
  end if;
  t.run_at := pgrab_internal.plan_edit(o, t);
  v_planned := t.status <> 'running' and t is distinct from o;
  if v_planned then
    t := pgrab_internal.edit_plan(o, t);
  end if;
  perform pgrab_internal.task_replan(t, v_planned);
  return null;
end $$;
comment on function pgrab_internal.task_edited() is
  'Applies an edit of the definition: a task that has not started is planned again; a running one finishes '
  'as it was started.';

-- For a task that is not running.  A link that waits, or has ended, is planned by its chain.
create or replace function pgrab_internal.edit_plan(o pgrab_internal.task, t pgrab_internal.task)
returns pgrab_internal.task
language plpgsql as $$
declare
  c_moved constant boolean :=
    t.run_at <> o.run_at and (o.chain is null or o.status in ('scheduled', 'claimed'));
begin
  if c_moved then
    t.fire_at := t.run_at;
    t.attempt := 0;
    t.settled := false;
  end if;
  if c_moved or t.status = 'claimed' then
    t.status := 'scheduled';
  end if;
  t.due_at := case
    when t.paused or t.status <> 'scheduled' then null
    when c_moved or t.due_at is null or t.jitter <> o.jitter and t.attempt = 0
      then t.fire_at + pgrab_internal.jitter_of(t.id, t.jitter)
    else t.due_at end;
  t.version := t.version + 1;
  return t;
end $$;
comment on function pgrab_internal.edit_plan(pgrab_internal.task, pgrab_internal.task) is
  'An edited task with its new plan.';

-- Unless p_released, only run_at is written: for a running task, and for an upsert that changes nothing.
create or replace function pgrab_internal.task_replan(p pgrab_internal.task, p_released boolean) returns void
language plpgsql as $$
declare
  v_before text;
begin
  if not p_released then
    v_before := pgrab_internal.link_ends('on');
    update pgrab.task t set run_at = p.run_at, updated_at = clock_timestamp() where t.id = p.id;
    perform set_config('pgrab.link_ends', v_before, true);
    perform pgrab_internal.lane_add(p);
    return;
  end if;
  update pgrab.task t
  set run_at = p.run_at, fire_at = p.fire_at, due_at = p.due_at, attempt = p.attempt, settled = p.settled,
    status = p.status, version = p.version, node_id = null, incarnation = null, claimed_at = null,
    updated_at = clock_timestamp()
  where t.id = p.id;
  perform pgrab_internal.lane_add(p);
  if p.due_at < now() + interval '20 s' then
    perform pgrab_internal.ring(array[p.shard]);
  end if;
end $$;
comment on function pgrab_internal.task_replan(pgrab_internal.task, boolean) is
  'Writes the new plan of an edited task. With p_released no node holds it any more.';

-- A task runs with the rights of its owner, so only the owner may change what it runs.
create or replace function pgrab.task_foreign() returns trigger
language plpgsql as $$
begin
  if not pg_has_role(current_user, (select c.relowner from pg_class c where c.oid = tg_relid), 'MEMBER') then
    raise exception using errcode = '42501',
      message = format('task %s belongs to %s: %s cannot change what it runs', new.id, new.owner,
        current_user),
      hint = 'Only the owner can change kind, command, args and on_failure; when and whether it runs, '
        'operators can change, too.';
  end if;
  return null;
end $$;
comment on function pgrab.task_foreign() is 'Trigger: only the owner of a task may change what it runs.';
create trigger task_05_foreign after update of kind, command, args, on_failure on pgrab.task for each row
when (new.owner <> current_user and not pgrab_internal.in_call()
  and (old.kind, old.command, old.args, old.on_failure)
    is distinct from (new.kind, new.command, new.args, new.on_failure))
execute function pgrab.task_foreign();

create or replace function pgrab.note_caller() returns trigger
language plpgsql as $$
begin
  perform set_config('pgrab.caller', current_user, true);
  return null;
end $$;
comment on function pgrab.note_caller() is
  'Trigger: tells the next trigger, which runs with the rights of pgrab''s owner, who acts.';

create or replace function pgrab_internal.written() returns text[]
language sql immutable
return '{name,key,kind,command,args,run_at,schedule,timezone,misfire,misfire_after,misfire_limit,starts_at,
  ends_at,max_runs,jitter,priority,timeout,max_attempts,backoff,backoff_max,delivery,parent_id,run_if,require,
  limit_key,paused,source,on_failure,expect_within,stall_after,keep}'::text[];
comment on function pgrab_internal.written() is 'The columns of pgrab.task that users write.';

do $$
declare
  c_columns constant text[] := pgrab_internal.written();
begin
  execute format(
    'create trigger task_09_caller after update of %1$s on pgrab.task for each row '
    'when (new.version = old.version and not pgrab_internal.in_call()) '
    'execute function pgrab.note_caller()',
    array_to_string(c_columns, ', '));
  execute format(
    'create trigger task_10_edited after update of %1$s on pgrab.task for each row '
    'when (new.version = old.version and (old.%2$s) is distinct from (new.%3$s)) '
    'execute function pgrab_internal.task_edited()',
    array_to_string(c_columns, ', '), array_to_string(c_columns, ', old.'),
    array_to_string(c_columns, ', new.'));
end $$;

-- Compares all columns: the number is a hash, and two lanes with the same number are two rows.
create or replace function pgrab_internal.lane_add(t pgrab_internal.task) returns setof void
language sql as $$
  insert into pgrab.lane (lane, owner, kind, require, delivery)
  select t.lane, t.owner, t.kind, t.require, t.delivery
  where not exists (
    select from pgrab.lane l
    where l.lane = t.lane and l.owner = t.owner and l.kind = t.kind and l.require = t.require
      and l.delivery = t.delivery)
  returning pg_notify('pgrab', 'lanes')
$$;
comment on function pgrab_internal.lane_add(pgrab_internal.task) is
  'Makes the lane of a task known to the nodes.';

create or replace function pgrab_internal.task_inserted() returns trigger
language plpgsql as $$
declare
  v_shards smallint[];
  v_links boolean;
  v_schedules boolean;
begin
  perform pgrab_internal.kind_refuse(n.owner, n.kind)
  from (select distinct t.owner, t.kind from new_task t) n
  where (select c.roles from pgrab.cluster c) and not pgrab_internal.may_kind(n.owner, n.kind);
  insert into pgrab.lane (lane, owner, kind, require, delivery)
  select n.lane, n.owner, n.kind, n.require, n.delivery
  from (select distinct t.lane, t.owner, t.kind, t.require, t.delivery from new_task t) n
  where not exists (
    select from pgrab.lane l
    where l.lane = n.lane and l.owner = n.owner and l.kind = n.kind and l.require = n.require
      and l.delivery = n.delivery);
  if found then
    perform pg_notify('pgrab', 'lanes');
  end if;
  -- 17 shards are enough to know that there are more than 16
  select array_agg(s.shard) into v_shards
  from (select distinct t.shard from new_task t where t.due_at < now() + interval '20 s' limit 17) s;
  if v_shards is not null then
    perform pgrab_internal.ring(v_shards);
  end if;
  select bool_or(t.chain is not null), bool_or(t.schedule is not null) into v_links, v_schedules
  from new_task t;
  if v_schedules then
    perform pgrab_internal.event('insert', t.owner, row(t.*)::pgrab_internal.task)
    from new_task n join pgrab.task t on t.id = any (array[n.id]) where n.schedule is not null;
  end if;
  if v_links then
    update pgrab.chain c set pending = c.pending + n.n
    from (select t.chain, count(*) as n from new_task t where t.needs is not null group by t.chain) n
    where c.chain = n.chain and c.root is not null;
    insert into pgrab.edge_change (chain, parent_id, child_id, run_if, added)
    select t.chain, t.parent_id, t.id, t.run_if, true from new_task t
    where t.chain is not null and t.needs is null;
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_inserted() is
  'Once per INSERT: makes new lanes known, counts new links of chains, and rings the doorbell when a new '
  'task is due soon.';
create trigger task_30_inserted after insert on pgrab.task referencing new table as new_task
  for each statement execute function pgrab_internal.task_inserted();
