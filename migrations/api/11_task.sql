-- Triggers of pgrab.task: how a row is completed, how an edit takes effect, when the bell rings.

create or replace function pgrab.shard(p_id bigint) returns smallint
language sql immutable strict parallel safe
return (hashint8extended(p_id, 0) & 1023)::smallint;
comment on function pgrab.shard(bigint) is
  'Which of the 1024 virtual buckets a task belongs to. Negative, huge and consecutive ids spread evenly.';

create or replace function pgrab_internal.band(p_priority smallint) returns integer
language sql immutable parallel safe
return width_bucket(p_priority, '{-32768,0,1,10,100}'::smallint[]);
comment on function pgrab_internal.band is
  'The band of a priority: 1 below zero, 2 zero, 3 up to 9, 4 up to 99, 5 above.';

create or replace function pgrab_internal.lane_hash(t pgrab_internal.task) returns bigint
language sql immutable parallel safe
return hashtextextended(t.kind, hashtextextended(t.owner,
  width_bucket(t.priority, '{-32768,0,1,10,100}'::smallint[]) + 100::bigint * t.slots
  + case when t.delivery = 'at_least_once' then 0 else 10 end
  + case when t.share_key is null then 0 else 20 end));
comment on function pgrab_internal.lane_hash is
  'What makes the lane of a task of which lane_of() knows nothing else: all lanes but those with a require '
  'and the like.';

-- The very expression of task_due_idx: inlined, it finds that index.
create or replace function pgrab_tool.lane_of(t pgrab_internal.task) returns bytea
language sql immutable parallel safe
return int8send(pgrab_internal.lane_hash(t))
  || coalesce(substring(sha256(decode(replace(nullif(
    case when t.require = '{}' then '' else t.require::text end
    || coalesce(t.prefer::text || extract(epoch from coalesce(t.failover_after, '30 s'))::text, '')
    || case when t.kind in ('shell', 'exec') then coalesce(' memory ' || (t.args #>> '{limits,memory}'), '')
      else '' end, ''), '\', '\\'), 'escape')), 1, 16), '');
comment on function pgrab_tool.lane_of is
  'Which lane of the due index a task belongs to: all tasks of a lane can be run by the same nodes and are '
  'equally important. Nobody can choose what a task says so that it gets into the lane of other ones.';

-- As limits_read() in src/exec/limits.c.
create or replace function pgrab_internal.memory_bytes(p_size text) returns bigint
language plpgsql immutable strict parallel safe as $$
declare
  c_part constant text[] := regexp_match(p_size, E'^\\s*[+]?([0-9]{1,40}(?:[.][0-9]{0,40})?|[.][0-9]{1,40})'
    '((?:[eE][+-]?[0-9]{1,2})?) *(|B|kB|MB|GB|TB)$');
  c_bytes constant numeric := (c_part[1] || c_part[2])::numeric
    * (1024 ^ coalesce(array_position('{kB,MB,GB,TB}', c_part[3]), 0))::numeric;
begin
  return case when c_bytes between 1024 * 1024 and 1e15 then floor(c_bytes) end;
end $$;
comment on function pgrab_internal.memory_bytes is
  'The bytes of a size such as 512MB. Null: no node would read it, or it is less than 1MB.';

create or replace function pgrab_tool.memory_of(p_kind text, p_args jsonb) returns bigint
language sql immutable parallel safe
return case when p_kind in ('shell', 'exec')
  then pgrab_internal.memory_bytes(p_args #>> '{limits,memory}') end;
comment on function pgrab_tool.memory_of is
  'The memory that a task may use, in bytes: args.limits.memory. Null: it does not say.';

-- Of what pgrab.node says only the bell and the state: each column of a view is prepared for every INSERT
-- that reads it.  Whose snapshot stays as it was at the beginning may not see that somebody wants the bell by
-- now.
create or replace view pgrab_internal.bell as
select r.id
from pgrab.registration r
  cross join lateral (
    select x.bell, x.state from pgrab.beat x where x.node_id = r.id order by x.beat desc limit 1) b
where not r.down and b.bell and b.state = 'up'
union all
select null where clock_timestamp() - now() > interval '100 ms'
  and current_setting('transaction_isolation') in ('repeatable read', 'serializable');
comment on view pgrab_internal.bell is
  'A row for each node that sleeps, or may. Only then does the doorbell ring, because all transactions that '
  'NOTIFY commit one after the other.';
comment on column pgrab_internal.bell.id is 'The node. Null: one that the snapshot may not show.';

-- Tells sleeping nodes to look now.  Only a hint: everything works without it, at most `poll` later.  The
-- payload names shards, so that a look for one task reads one shard, and nodes without a share in these do
-- not look at all.  An empty payload stands for more than 64 shards: look everywhere.
create or replace function pgrab_internal.ring_out(p_shards smallint[]) returns void
language plpgsql as $$
begin
  perform pg_notify('pgrab',
    case when cardinality(p_shards) <= 64 then array_to_string(p_shards, ' ') else '' end);
end $$;
comment on function pgrab_internal.ring_out is 'The doorbell: a NOTIFY on channel pgrab.';

create or replace function pgrab_internal.ring(p_shards smallint[]) returns void
language plpgsql set enable_seqscan = off set jit = off as $$
begin
  if exists (select from pgrab_internal.bell) then
    perform pgrab_internal.ring_out(p_shards);
  end if;
end $$;
comment on function pgrab_internal.ring is 'The doorbell, if a node wants it.';

-- run_at of a task with a schedule: the one given, or its first fire.
create or replace function pgrab_internal.plan_first(t pgrab_internal.task, p_given timestamptz)
returns timestamptz
language plpgsql as $$
declare
  v_first timestamptz := coalesce(p_given, pgrab_internal.first_fire(t));
begin
  if v_first is null and t.calendar is not null then
    perform pgrab_internal.refuse('calendar', t.calendar, format(
      'The schedule %s has no fire on an open day in the next 30 years.',
      pgrab_internal.schedule_quote(t.schedule)));
  elsif v_first is null then
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
comment on function pgrab_internal.plan_first is
  'When a task with a schedule is first due; refuses a task that would never fire.';

-- PostgreSQL reads the condition of a trigger anew for each statement, and that costs a single INSERT more
-- than the row does; a function is read once in a session.  So the triggers for each row change what has to
-- be changed, under conditions as short as can be; what is merely refused is found by task_inserted(), after
-- the statement, in one pass over its rows.
--
-- Programs that map rows to objects write null for what they do not know: it means the default.  The system's
-- columns begin as the system wants them, whatever the INSERT says.
do $do$
begin
  execute format($f$
create or replace function pgrab_internal.task_fill() returns trigger
language plpgsql as $$
declare
  t pgrab_internal.task := new;
begin
  if num_nulls(%s) > 0 then
%s
  end if;
%s
  if t.kind is null or t.misfire_limit not between 0 and 100000 or octet_length(t.key) > 1000 then
    perform pgrab_internal.task_check(t);
  end if;
  new := t;
  return new;
end $$ $f$,
    pgrab_internal.task_fallbacks('t.%I', ', ', '{kind}'),
    pgrab_internal.task_fallbacks('    t.%I := coalesce(t.%1$I, %2$s);', E'\n', '{kind}'),
    pgrab_internal.task_states('  t.%I := %s;', E'\n', null));
end $do$;
comment on function pgrab_internal.task_fill is
  'Gives a new task its defaults where the INSERT says null, and the system''s columns their first values.';

-- Triggers that must know who acts run with the caller's rights, and come before those that run with the
-- rights of pgrab's owner, where current_user is always the owner.
create or replace function pgrab_tool.task_owner() returns trigger
language plpgsql as $$
begin
  new.owner := current_user;
  return new;
end $$;
comment on function pgrab_tool.task_owner is
  'Trigger: a task belongs to the role that inserts it, whatever the row says.';
create trigger task_05_owner before insert on pgrab.task for each row
  when (new.owner is distinct from current_user and pgrab_internal.call_verb() is null) -- in_call()
  execute function pgrab_tool.task_owner();

-- A null anywhere makes the condition null, and the trigger runs.  What NOT NULL, a CHECK or an index would
-- refuse before task_inserted(), in words of its own, is refused here.  The condition costs its length for
-- each statement, a microsecond for 150 characters of what PostgreSQL makes of it: so numbers are or-ed, a
-- misfire_limit is taken for odd when it is not the default, and defaults say current_timestamp, not now().
do $do$
begin
  execute (
    select format($f$
create trigger task_10_fill before insert on pgrab.task for each row
when (((%s) = 0 and not (%s) and %s and num_nulls(%s) = 0 and num_nonnulls(%s) = 0
  and new.misfire_limit = 100 and (octet_length(new.key) > 1000) is not true) is not true)
execute function pgrab_internal.task_fill() $f$,
      string_agg(format('new.%I', c.name), ' | ') filter (where c.fallback = '0'),
      string_agg(format('new.%I', c.name), ' or ') filter (where c.fallback = 'false'),
      string_agg(format('new.%I = %s', c.name, c.fallback), ' and ')
        filter (where c.fallback not in ('0', 'false')),
      pgrab_internal.task_fallbacks('new.%I', ', ', '{}'),
      pgrab_internal.task_states('new.%I', ', ', false))
    from pgrab_internal.task_column c
    where c.system and c.filled);
end $do$;

do $do$
begin
  execute format($f$
create or replace function pgrab_internal.task_usual(t pgrab_internal.task) returns boolean
language sql immutable parallel safe
return t.on_failure is null and octet_length(coalesce(t.name, '-')) between 1 and 1000
  and octet_length(coalesce(t.key, '-')) between 1 and 1000
  and octet_length(t.source) <= 1000 and t.priority <= 0
  and num_nonnulls(t.starts_at, t.ends_at, t.max_runs, t.expect_within, t.slow_after, t.stall_after, t.keep,
    t.wait_for, t.wait_timeout, t.signal_by, t.prefer, t.failover_after) = 0
  and octet_length(coalesce(t.share_key, '-')) between 1 and 200
  and coalesce(pgrab_internal.traceparent_fine(t.traceparent), true)
  and %s $f$,
    pgrab_internal.task_fallbacks('t.%I = %s', ' and ', '{kind,command,args,source,paused,priority}'));
end $do$;
comment on function pgrab_internal.task_usual is
  'A definition in which nothing can be wrong, as far as kind, command and args go together.';

-- Most tasks: 1 us a row instead of 17.
create or replace function pgrab_internal.task_plain(t pgrab_internal.task) returns boolean
language sql immutable parallel safe
return t.kind in ('sql', 'shell', 'noop') and t.args = '{}' and octet_length(t.command) <= 1048576
  and case t.kind when 'noop' then t.command = '' else btrim(t.command, E' \t\r\n') <> '' end
  and pgrab_internal.task_usual(t);
comment on function pgrab_internal.task_plain is 'A definition in which nothing can be wrong.';

-- Most tasks that have args: those of handlers and plug-ins, and SQL with parameters.  p_kinds: the kinds
-- that have announced no schema.
create or replace function pgrab_internal.task_free(t pgrab_internal.task, p_kinds text[]) returns boolean
language sql immutable parallel safe
return case
  when t.kind = any (p_kinds) then t.command = '' and jsonb_typeof(t.args) = 'object'
  when t.kind = 'sql' and jsonb_typeof(t.args -> 'params') = 'array'
  then t.args - 'params' = '{}' and jsonb_array_length(t.args -> 'params') <= 1000
    and btrim(t.command, E' \t\r\n') <> '' and octet_length(t.command) <= 1048576
  else false end and octet_length(t.args::text) <= 1048576 and pgrab_internal.task_usual(t);
comment on function pgrab_internal.task_free is
  'A definition in which nothing can be wrong, args included.';

-- What anybody may have, of priority and misfire_limit: cluster_bounds_check.
create or replace function pgrab_internal.insert_check(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  perform pgrab_internal.task_check(t);
  if (t.priority > 0 or t.misfire_limit > 100)
    and pgrab_internal.call_verb() is distinct from 'backfill' then -- which copies what was permitted
    perform pgrab_internal.owner_bounds(t, t.owner);
  end if;
end $$;
comment on function pgrab_internal.insert_check is
  'Refuses a new task that cannot be carried out, or may not be.';

-- The default of run_at is a microsecond after now(), which tells it apart from a now() in the statement.
-- A time and nothing else is what most have that come here: 6 us instead of 60.
create or replace function pgrab_internal.task_plan() returns trigger
language plpgsql as $$
declare
  t pgrab_internal.task;
begin
  if new.run_at between '0001-01-01Z' and '9999-12-31Z' and new.jitter = '0' and new.kind <> 'batch'
    and num_nonnulls(new.schedule, new.calendar, new.limit_key, new.parent_id, new.wait_for) = 0 then
    new.run_at := coalesce(nullif(new.run_at, now() + interval '1 us'), now());
    new.fire_at := new.run_at;
    new.due_at := case when not new.paused then new.run_at end;
    return new;
  end if;
  t := new;
  new := pgrab_internal.plan_new(t);
  return new;
end $$;
comment on function pgrab_internal.task_plan is 'Plans a new task that is not simply due now.';

create or replace function pgrab_internal.plan_note(t pgrab_internal.task) returns text
language sql immutable parallel safe
return E'\x01' || extract(epoch from t.run_at) || ' ' || t.key || E'\x01';
comment on function pgrab_internal.plan_note is 'The time that was worked out for a new task, and its key.';

-- Triggers of a statement's rows run when all have been inserted.  *: there have been too many to note them.
create or replace function pgrab_internal.plan_remember(t pgrab_internal.task) returns void
language plpgsql as $$
declare
  c_notes constant text := coalesce(current_setting('pgrab.planned', true), '');
begin
  if c_notes <> '*' then
    perform set_config('pgrab.planned',
      case when length(c_notes) > 60000 then '*' else c_notes || pgrab_internal.plan_note(t) end, true);
  end if;
end $$;
comment on function pgrab_internal.plan_remember is
  'Notes a time that was worked out for a new task, which may turn out to be there already.';

create or replace function pgrab_internal.plan_remembered(t pgrab_internal.task) returns boolean
language plpgsql as $$
declare
  c_notes constant text := coalesce(current_setting('pgrab.planned', true), '');
  c_noted constant boolean := strpos(c_notes, pgrab_internal.plan_note(t)) > 0;
begin
  if c_noted then
    perform set_config('pgrab.planned', replace(c_notes, pgrab_internal.plan_note(t), ''), true);
  end if;
  return c_noted or t.run_at = now() + interval '1 us'
    or c_notes = '*' and t.run_at = pgrab_internal.first_fire(t);
end $$;
comment on function pgrab_internal.plan_remembered is
  'Is this run_at that of the insert half of an upsert, and not what somebody has written?';

-- A schedule is asked for its first fire, so the definition has to be right before.
create or replace function pgrab_internal.plan_new(t pgrab_internal.task) returns pgrab_internal.task
language plpgsql as $$
declare
  c_given constant timestamptz := nullif(t.run_at, now() + interval '1 us');
begin
  perform pgrab_internal.insert_check(t);
  t.run_at := coalesce(c_given, now());
  perform pgrab_internal.plan_check(t);
  if t.limit_key is not null then
    perform pgrab_internal.limit_check(t.limit_key, t.owner);
  end if;
  if t.calendar is not null then
    perform pgrab_internal.calendar_check(t.calendar, t.owner);
  end if;
  if t.schedule is not null then
    t.run_at := pgrab_internal.plan_first(t, c_given);
    if t.key is not null and c_given is null then
      perform pgrab_internal.plan_remember(t);
    end if;
    t.traceparent := nullif(t.traceparent, current_setting('pgrab.traceparent', true)); -- of one request
  end if;
  t.fire_at := t.run_at;
  t.due_at := case when not t.paused then t.run_at + pgrab_internal.jitter_of(t.id, t.jitter) end;
  if t.parent_id is not null then
    t := pgrab_internal.chain_join(t);
  elsif t.wait_for is not null or t.kind = 'batch' then
    t.status := 'waiting';
    t.due_at := null;
  end if;
  return t;
end $$;
comment on function pgrab_internal.plan_new is
  'Plans a new task with a schedule, a limit, a parent, a jitter, or something to wait for.';

create trigger task_20_plan before insert on pgrab.task for each row
when ((
  new.run_at = current_timestamp + interval '1 us' and new.due_at = new.run_at and new.fire_at = new.run_at
  and new.jitter = '0' and not new.paused and new.kind <> 'batch'
  and num_nonnulls(new.schedule, new.calendar, new.limit_key, new.parent_id, new.wait_for) = 0
  ) is not true)
execute function pgrab_internal.task_plan();

-- When the schedule has changed, the task is planned from now on: a run_at that was not touched belongs to
-- the old schedule.
create or replace function pgrab_internal.plan_edit(o pgrab_internal.task, n pgrab_internal.task)
returns timestamptz
language plpgsql as $$
declare
  c_same constant boolean := (n.schedule, n.timezone, n.starts_at, n.calendar, n.on_closed)
    is not distinct from (o.schedule, o.timezone, o.starts_at, o.calendar, o.on_closed);
begin
  if n.schedule is null
    or c_same and (n.ends_at, n.max_runs) is not distinct from (o.ends_at, o.max_runs) then
    -- The insert half of an upsert has worked out when a new task would fire; this one has a plan already.
    return case when c_same and n.schedule is not null and n.run_at <> o.run_at
        and pgrab_internal.plan_remembered(n)
      then o.run_at else n.run_at end;
  end if;
  return pgrab_internal.plan_first(n, case when n.run_at <> o.run_at or c_same then n.run_at end);
end $$;
comment on function pgrab_internal.plan_edit is 'The run_at of a task that a user has edited.';

-- Not when somebody has said when it begins: then its fires before that are none.
create or replace function pgrab_internal.note_closed_first(p_ids bigint[]) returns void
language plpgsql as $$
begin
  perform pgrab_internal.note_closed(array_agg(t.id),
    array_agg(greatest(now(), t.starts_at - interval '1 us')), array_agg(t.run_at))
  from unnest(p_ids) i(id) join pgrab.task t on t.id = any (array[i.id])
  where t.calendar is not null and t.schedule is not null
    and t.run_at = pgrab_internal.first_fire(row(t.*)::pgrab_internal.task)
  having count(*) > 0;
end $$;
comment on function pgrab_internal.note_closed_first is
  'Writes the history of fires that a calendar closes before the first one of a schedule.';

-- Will what a task runs be run once more, after the run or the end that its row stands for?
create or replace function pgrab_internal.runs_again(t pgrab_internal.task) returns boolean
language plpgsql stable as $$
declare
  r pgrab_internal.task;
begin
  if not pgrab_internal.under_way(t.status, t.incarnation)
    and not pgrab_internal.is_over(t.status) then
    return true;
  elsif t.chain is null then
    return pgrab_internal.fire_following(t, t.fires + 1) is not null;
  end if;
  select x.* into r from pgrab.chain c join pgrab.task x on x.id = c.root where c.chain = t.chain;
  r.fires := r.fires + case when r.needs is not null then 1 else 0 end;
  return pgrab_internal.chain_next(r) is not null;
end $$;
comment on function pgrab_internal.runs_again is
  'Does a task have a run to come in which an edit of what it runs would count?';

-- What a task runs was edited, and a run is in progress: the new text must run, too.
create or replace function pgrab_internal.edit_run_at(t pgrab_internal.task) returns timestamptz
language plpgsql as $$
begin
  if pgrab_internal.runs_again(t) then
    return t.run_at;
  elsif t.chain is null and t.schedule is null then
    return greatest(clock_timestamp(), t.fire_at + interval '1 us');
  end if;
  perform pgrab_internal.control_refuse(t, case
    when t.chain is null then 'This is the last fire of its schedule: what you write would never run. Raise '
      'max_runs or ends_at in the same statement, or insert a new task.'
    else 'It has no other run in its chain: what you write would never run. Insert a new task.' end);
end $$;
comment on function pgrab_internal.edit_run_at is
  'The run_at of a task when kind, command or args have been edited: a one-shot that is running runs again. '
  'Refuses an edit that could never run.';

create or replace function pgrab_internal.edit_check(o pgrab_internal.task, t pgrab_internal.task)
returns void
language plpgsql as $$
begin
  perform pgrab_internal.task_check(t);
  perform pgrab_internal.plan_check(t);
  if t.limit_key is distinct from o.limit_key then
    perform pgrab_internal.limit_check(t.limit_key, t.owner);
  end if;
  if t.batch is distinct from o.batch then
    perform pgrab_internal.batch_refuse(t.batch, 'A task is a member of a batch from its INSERT on.');
  elsif 'batch' in (t.kind, o.kind) and t.kind <> o.kind then
    perform pgrab_internal.refuse('kind', t.kind, 'A task is a batch from its INSERT on, or never.');
  end if;
  perform pgrab_internal.batch_check(t);
  perform pgrab_internal.batch_edited(o, t);
  if (t.command, t.args) is distinct from (o.command, o.args) then
    perform pgrab_internal.quota_edited(t);
  end if;
  if t.calendar is distinct from o.calendar then
    perform pgrab_internal.calendar_check(t.calendar, t.owner);
  end if;
  if t.kind <> o.kind then
    perform pgrab_internal.kind_refuse(t.owner, t.kind);
  end if;
  if (t.priority, t.misfire_limit) is distinct from (o.priority, o.misfire_limit) then
    perform pgrab_internal.owner_bounds(t, pgrab_internal.caller());
  end if;
end $$;
comment on function pgrab_internal.edit_check is
  'Refuses an edit of a task that cannot be carried out, or may not be.';

-- A lane that is missing all the same is found by lanes_mend().
create or replace function pgrab_internal.priority_edited(o pgrab_internal.task, t pgrab_internal.task)
returns void
language plpgsql as $$
begin
  if t.priority = o.priority then
    return;
  end if;
  perform pgrab_internal.definition_edited(o, t);
  perform pgrab_internal.owner_bounds(t, pgrab_internal.caller());
  if pgrab_internal.band(t.priority) <> pgrab_internal.band(o.priority) then
    perform pgrab_internal.lanes_add(array[pgrab_internal.lane(t)], true);
  end if;
end $$;
comment on function pgrab_internal.priority_edited is 'What an edit of nothing but `priority` needs.';

-- An edit of the definition.  A task that has not started is planned again, and a node that had claimed it
-- finds a new version.  A running one finishes as it was started, because its fence (version, incarnation) is
-- left alone; what it runs from now on has a run of its own.  When the system plans a task again (re-arming,
-- misfire) it raises the version itself; that is not an edit, and the trigger ignores it.  It is an AFTER
-- trigger for the reason given in 0001_schema.sql.  It reads the row as it is now, because the statement, or
-- a user's trigger, may have edited it twice.
create or replace function pgrab_internal.task_edited() returns trigger
language plpgsql as $$
declare
  o constant pgrab_internal.task := old;
  t pgrab_internal.task;
begin
  if pgrab_internal.link_ending() then
    return null; -- edit_time(), below
  end if;
  select * into t from pgrab.task x where x.id = new.id;
  if not found then
    return null;
  end if;
  perform pgrab_internal.event_edit(o, t);
  if pgrab_internal.edit_simple(o, t) then
    perform pgrab_internal.priority_edited(o, t);
  else
    perform pgrab_internal.definition_edited(o, t);
    perform pgrab_internal.edit_check(o, t);
    t.run_at := pgrab_internal.plan_edit(o, t);
    if (t.kind, t.command, t.args) is distinct from (o.kind, o.command, o.args) then
      t.run_at := pgrab_internal.edit_run_at(t);
    end if;
    perform pgrab_internal.lanes_add(array[pgrab_internal.lane(t)], true);
  end if;
  if pgrab_internal.under_way(t.status, t.incarnation) or t is not distinct from o then
    perform pgrab_internal.edit_time(t);
  else
    perform pgrab_internal.edit_plan(o, t);
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_edited is
  'Applies an edit of the definition: a task that has not started is planned again; a running one finishes '
  'as it was started.';

-- A link that waits, or has ended, is planned by its chain.
create or replace function pgrab_internal.edit_plan(o pgrab_internal.task, t pgrab_internal.task) returns void
language plpgsql as $$
declare
  c_moved constant boolean :=
    t.run_at <> o.run_at and (o.chain is null or o.status in ('scheduled', 'claimed'));
  c_waits constant boolean := pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation)
    and (t.wait_for, t.wait_timeout) is distinct from (o.wait_for, o.wait_timeout)
    and not exists (select from pgrab.wait w where w.task_id = t.id and w.goes_on); -- the next fire's
begin
  perform pgrab_internal.move(array[pgrab_internal.move_to(t.id, t.version,
    case when c_moved or c_waits or t.status = 'claimed' then 'replan' else 'edit' end, p_run_at => t.run_at,
    p_due_at => case when c_waits and not c_moved then pgrab_internal.signal_due(t) end,
    p_fire_at => case when c_moved then t.run_at
      when t.jitter <> o.jitter and t.attempt = 0 then t.fire_at end,
    p_attempt => case when c_moved then 0 end, p_settled => case when c_moved then false end)]);
  if c_moved and t.calendar is not null then
    perform pgrab_internal.note_closed_first(array[t.id]);
  end if;
end $$;
comment on function pgrab_internal.edit_plan is 'Plans an edited task that is not running.';

-- The time is the user's: it is no move.
create or replace function pgrab_internal.edit_time(t pgrab_internal.task) returns void
language plpgsql as $$
declare
  v_before text := pgrab_internal.link_ends('on');
begin
  perform pgrab_tool.edit(t.id,
    jsonb_build_object('run_at', t.run_at, 'updated_at', clock_timestamp()));
  v_before := set_config('pgrab.link_ends', v_before, true);
end $$;
comment on function pgrab_internal.edit_time is
  'Writes the run_at of a task that is running, or that an upsert has not changed.';

-- A task runs with the rights of its owner, so only the owner may change what it runs.
create or replace function pgrab_tool.task_foreign() returns trigger
language plpgsql as $$
begin
  if pg_has_role(current_user, (select c.relowner from pg_class c where c.oid = tg_relid), 'USAGE')
    or tg_nargs > 0 and pg_has_role(current_user, tg_argv[0], 'USAGE') then
    return null;
  end if;
  raise exception using errcode = '42501',
    message = format('task %s belongs to %s: %s cannot change %s', new.id, new.owner, current_user,
      case tg_nargs when 0 then 'what it runs' else 'it' end),
    hint = 'Only the owner can change kind, command, args and on_failure; when and whether it runs, '
      'operators can change, too.';
end $$;
comment on function pgrab_tool.task_foreign is
  'Trigger: only the owner of a task may change what it runs. With an argument: members of that role may '
  'change the other columns.';
create trigger task_05_foreign after update of kind, command, args, on_failure on pgrab.task for each row
when (new.owner <> current_user and not pgrab_internal.in_call()
  and (old.kind, old.command, old.args, old.on_failure)
    is distinct from (new.kind, new.command, new.args, new.on_failure))
execute function pgrab_tool.task_foreign();

create or replace function pgrab_tool.note_caller() returns trigger
language plpgsql as $$
begin
  perform set_config('pgrab.caller', current_user, true);
  return new;
end $$;
comment on function pgrab_tool.note_caller is
  'Trigger: tells the next trigger, which runs with the rights of pgrab''s owner, who acts.';

do $$
declare
  c_columns constant text[] := pgrab_internal.written();
begin
  execute format(
    'create trigger task_09_caller after update of %1$s on pgrab.task for each row '
    'when (new.version = old.version and not pgrab_internal.in_call()) '
    'execute function pgrab_tool.note_caller()',
    array_to_string(c_columns, ', '));
  execute format(
    'create trigger task_10_edited after update of %1$s on pgrab.task for each row '
    'when (new.version = old.version and (old.%2$s) is distinct from (new.%3$s)) '
    'execute function pgrab_internal.task_edited()',
    array_to_string(c_columns, ', '), array_to_string(c_columns, ', old.'),
    array_to_string(c_columns, ', new.'));
end $$;

-- Lanes that nothing stands in.  A task that is inserted at this moment, and not committed, may be in one of
-- them: lanes_mend() adds that lane again.
create or replace function pgrab_internal.lanes_empty(p_ids bigint[]) returns setof bigint
language sql stable set enable_seqscan = off set enable_bitmapscan = off as $$
  select l.id from pgrab.lane l
  where l.id = any (p_ids)
    and not exists (select from pgrab.task t
      where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
        and t.due_at is not null)
    and not exists (select from pgrab.task t
      where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
        and t.due_at is null)
$$;
comment on function pgrab_internal.lanes_empty is
  'Which of these lanes (pgrab.lane.id) nothing stands in: two probes for each.';

-- The bound per owner.  Its first 64 lanes wait for nobody.  A statement that adds more updates the first one
-- without changing it: so those of one owner come one after the other, and no number of open transactions
-- passes the bound.
create or replace function pgrab_internal.lanes_bound(p_owner text) returns void
language plpgsql as $$
declare
  c_most constant integer := coalesce((select q.max_lanes from pgrab.quota q where q.owner = p_owner),
    (select c.owner_lanes from pgrab.cluster c));
begin
  if pgrab_internal.lanes_of(p_owner, least(64, c_most)) <= least(64, c_most) then
    return;
  end if;
  update pgrab.lane l set band = l.band
  where l.id = (select x.id from pgrab.lane x where x.owner = p_owner order by x.owner, x.lane limit 1);
  if pgrab_internal.lanes_of(p_owner, c_most) > c_most then
    delete from pgrab.lane l where l.id in (
      select pgrab_internal.lanes_empty(array(
        select x.id from pgrab.lane x where x.owner = p_owner for update skip locked)));
    if pgrab_internal.lanes_of(p_owner, c_most) > c_most then
      raise exception using errcode = '54000', schema = 'pgrab', table = 'task',
        message = format('tasks of %s would stand in more than %s lanes', p_owner, c_most),
        hint = 'Tasks are in one lane when kind, require, prefer, delivery, slots and args.limits.memory are '
          'equal and their priorities in one band (below 0, 0, up to 9, up to 99, above). Give them fewer '
          'different values, or wait until others have ended. The bound is max_lanes of its quota, or '
          'pgrab.cluster.owner_lanes.';
    end if;
  end if;
end $$;
comment on function pgrab_internal.lanes_bound is
  'Refuses more lanes than one owner may have. Empty ones are removed first.';

-- Volatile: it has to see what the caller has just inserted, and what others have committed meanwhile.
create or replace function pgrab_internal.lanes_of(p_owner text, p_most integer) returns bigint
language sql as $$
  select count(*) from (select from pgrab.lane l where l.owner = p_owner limit p_most + 1) x
$$;
comment on function pgrab_internal.lanes_of is
  'How many lanes an owner has; it counts no further than to one more than p_most.';

-- What is missing of these lanes; a lane may be named twice.
create or replace function pgrab_internal.lanes_add(p_lanes pgrab_internal.lane[], p_bounded boolean)
returns bigint
language plpgsql as $$
declare
  v_n bigint;
begin
  insert into pgrab.lane (lane, band, owner, kind, require, delivery, prefer, failover, shared,
    slots, memory)
  select distinct on (n.lane)
    n.lane, n.band, n.owner, n.kind, n.require, n.delivery, n.prefer, n.failover, n.shared, n.slots, n.memory
  from unnest(p_lanes) n
  where not exists (select from pgrab.lane l where l.owner = n.owner and l.lane = n.lane);
  get diagnostics v_n = row_count;
  if v_n > 0 then
    perform pg_notify('pgrab', 'lanes');
    perform pgrab_internal.lanes_bound(o.owner)
    from (select distinct n.owner from unnest(p_lanes) n order by n.owner) o where p_bounded;
  end if;
  return v_n;
end $$;
comment on function pgrab_internal.lanes_add is
  'Makes lanes known to the nodes; with p_bounded no more than their owner may have. Returns how many were '
  'not known.';

create or replace function pgrab_internal.lane(t pgrab_internal.task) returns pgrab_internal.lane
language sql immutable
begin atomic
  select (null, pgrab_tool.lane_of(t),
    pgrab_internal.band(t.priority), t.owner, t.kind, t.require, t.delivery, t.prefer,
    case when t.prefer is not null
      then greatest(coalesce(date_part('epoch', t.failover_after), 30) * 1e6, 1) end::bigint,
    t.share_key is not null, t.slots, pgrab_tool.memory_of(t.kind, t.args))::pgrab_internal.lane;
end;
comment on function pgrab_internal.lane is 'The lane of a task.';

-- A function that PostgreSQL does not inline, so that those pay for it who have separate roles or quotas.
create or replace function pgrab_internal.bounded(p_owner text, p_kind text, p_shared boolean)
returns boolean
language plpgsql stable as $$
begin
  return exists (select from pgrab.quota q where q.owner = p_owner or p_shared and q.share_key is not null)
    or (select c.roles from pgrab.cluster c) and not pgrab_internal.may_kind(p_owner, p_kind);
end $$;
comment on function pgrab_internal.bounded is
  'May new tasks of this owner and kind, with a share_key if p_shared, be under a quota, or forbidden?';

-- One pass over the rows, because setting out on one costs a single INSERT more than the row does: each
-- column of a list and each function of an expression is prepared for every statement.  So rows are not
-- compared with the first one: that all are in one lane, which is known, is found by the least and the
-- greatest hash.  (A lane of rows that are not plain is more than its hash.)  Of several lanes, kind_refuse()
-- and quota_enter() find out themselves whether they are bounded.
create or replace function pgrab_internal.task_inserted() returns trigger
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  v record;
begin
  select q.plain, false as tied, q.due_at, (select c.roles or c.quotas from pgrab.cluster c)
      and (q.low <> q.high or pgrab_internal.bounded(q.owner, q.kind, q.shared)) as bounded,
    q.low = q.high
      and exists (select from pgrab.lane l where l.owner = q.owner and l.lane = int8send(q.low)) as known
  into v
  from (
    select min(n.due_at) as due_at, min(n.owner) as owner, min(n.kind) as kind,
      bool_or(n.share_key is not null) as shared,
      min(pgrab_internal.lane_hash(row(n.*)::pgrab_internal.task)) as low,
      max(pgrab_internal.lane_hash(row(n.*)::pgrab_internal.task)) as high,
      bool_and(n.schedule is null and n.chain is null and n.batch is null
        and pgrab_internal.task_plain(row(n.*)::pgrab_internal.task)) as plain
    from new_task n) q;
  if not v.plain then
    select bool_and(pgrab_tool.lane_of(row(n.*)::pgrab_internal.task) = f.lane)
        and exists (select from pgrab.lane l where l.owner = min(f.owner) and l.lane = f.lane),
      bool_or(num_nonnulls(n.schedule, n.chain, n.batch, n.wait_for) > 0 or n.kind = 'batch')
    into v.known, v.tied
    from (
        select n.owner, pgrab_tool.lane_of(row(n.*)::pgrab_internal.task) as lane from new_task n limit 1) f
      cross join new_task n
    group by f.lane;
    perform pgrab_internal.insert_check(row(n.*)::pgrab_internal.task) from new_task n
    where not pgrab_internal.task_plain(row(n.*)::pgrab_internal.task)
      and not pgrab_internal.task_free(row(n.*)::pgrab_internal.task, array(
          select k.kind from pgrab.kind k
          where k.schema is null and pgrab_internal.args_known(k.kind) is null))
      and n.jitter = '0' -- others: plan_new()
      and num_nonnulls(n.schedule, n.calendar, n.limit_key, n.parent_id, n.wait_for) = 0;
  end if;
  if not v.known then
    perform pgrab_internal.lanes_add(array_agg(g.lane), true)
    from (select pgrab_internal.lane(row(n.*)::pgrab_internal.task) as lane from new_task n group by 1) g;
  end if;
  if v.bounded then
    perform pgrab_internal.kind_refuse(n.owner, n.kind) from new_task n group by n.owner, n.kind;
    perform pgrab_internal.quota_enter(q, n.owner, n.share_key, n.ids, n.bytes)
    from (
        select t.owner, null as share_key, array_agg(t.id) as ids,
          max(pgrab_internal.task_bytes(t.command, t.args)) as bytes
        from new_task t group by 1
        union all
        select t.owner, t.share_key, array_agg(t.id), max(pgrab_internal.task_bytes(t.command, t.args))
        from new_task t where t.share_key is not null group by 1, 2) n
      cross join lateral pgrab_internal.quota_of(
        case when n.share_key is null then n.owner end, n.share_key) q;
  end if;
  if v.due_at < now() + interval '20 s' then
    if exists (select from pgrab_internal.bell) then
      -- 65 shards are enough to know that there are more than 64
      perform pgrab_internal.ring_out(array(
        select distinct pgrab.shard(t.id) from new_task t where t.due_at < now() + interval '20 s' limit 65));
    end if;
  end if;
  if v.tied then
    perform pgrab_internal.batch_check(row(n.*)::pgrab_internal.task)
    from new_task n
    where n.kind = 'batch' or n.batch is not null and num_nonnulls(n.schedule, n.parent_id) > 0;
    perform pgrab_internal.batches_begin(array_agg(n.id)) from new_task n where n.kind = 'batch'
    having count(*) > 0;
    perform pgrab_internal.batch_join(n.batch, n.owner, n.members)
    from (select t.batch, t.owner, count(*) as members from new_task t where t.batch is not null
      group by t.batch, t.owner order by t.batch, t.owner) n;
    perform pgrab_internal.batch_bound(array_agg(n.id))
    from new_task n join pgrab.limit l on l.key = pgrab_internal.batch_limit(n.batch) having count(*) > 0;
    perform pgrab_internal.event('insert', t.owner, row(t.*)::pgrab_internal.task)
    from new_task n join pgrab.task t on t.id = any (array[n.id]) where n.schedule is not null;
    perform pgrab_internal.note_closed_first(array_agg(n.id)) from new_task n where n.calendar is not null
    having count(*) > 0;
    update pgrab.chain c set pending = c.pending + n.n
    from (select t.chain, count(*) as n from new_task t where t.needs is not null group by t.chain) n
    where c.chain = n.chain and c.root is not null;
    insert into pgrab.edge_change (chain, parent_id, child_id, run_if, added)
    select t.chain, t.parent_id, t.id, t.run_if, true from new_task t
    where t.chain is not null and t.needs is null;
    perform pgrab_internal.waits_begin(array_agg(t.id)) from new_task t
    where t.wait_for is not null or t.kind = 'batch';
  end if;
  return null;
end $$;
comment on function pgrab_internal.task_inserted is
  'Once per INSERT: refuses what cannot be right, or is more than a quota permits, makes new lanes known, '
  'counts new links of chains, and rings the doorbell when a new task is due soon.';
create trigger task_30_inserted after insert on pgrab.task referencing new table as new_task
  for each statement execute function pgrab_internal.task_inserted();
