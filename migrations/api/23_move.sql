-- The door: every change of what a task is about to do, beside the exceptions named below.
--
--   finish, misfire, recover, limits, chains, control, edits      decide, and return moves
--   move()      the table of transitions says what a task becomes; its row is written or deleted,
--               the history gets its row, and what hangs on it is told: chain, limit, alerts, nodes
--
-- A move names a task, the version that was decided about, and an event.  The caller that decides holds the
-- lock of the row.  What a move leaves null stays as it is.
--
-- Four statements make moves without this function, because they are made for every task (docs/performance.md
-- has what that saves): claim.sql; start.sql and limit_start.sql; the plain finish, finish_one() and
-- finish_last(); and the count of a link's parents, links_count().  What finish_last() sets in motion goes
-- through move_follow(), too; finish_one() itself forgets a request to stop and tells the alerts, and
-- links_count() rings and asks for signals.  docs/architecture.md has the other statements that write tasks
-- and the history; scripts/check finds any more.

delete from pgrab_internal.transition;
insert into pgrab_internal.transition (event, was, becomes, alone, gone, quiet, says)
select v.event, w.status, v.becomes, v.alone, v.gone, v.quiet, v.says
from (values
  ('claim', '{scheduled}', 'claimed', false, false, true, 'a node takes it'),
  ('begin', '{scheduled}', 'running', false, false, true,
    'a node takes it and can begin it at once: its kind is instant, or a worker or handler is free'),
  ('start', '{claimed}', 'running', false, false, true, 'start'),
  ('release', '{claimed}', 'scheduled', false, false, false, 'its node hands it back, or has died'),
  ('refuse', '{claimed}', 'scheduled', false, false, true, 'its owner may not use its kind any more'),
  ('line', '{claimed}', 'scheduled', false, false, true, 'in line for a place under its limit or quota'),
  ('queue', '{scheduled}', 'scheduled', false, false, true, 'it goes into that line without being claimed'),
  ('wake', '{scheduled}', 'scheduled', false, false, false, 'its turn has come in that line'),
  ('unstart', '{running}', 'scheduled', false, false, false, 'it could not begin after all'),
  ('retry', '{running}', 'scheduled', false, false, false, 'its next attempt'),
  ('next', '{running}', 'scheduled', false, false, false, 'its next fire'),
  ('await', '{running}', 'waiting', false, false, true,
    'its request is accepted, and the answer comes later'),
  ('await', '{waiting}', 'waiting', false, false, true, 'its node says so again, for lack of a reply'),
  ('retry', '{waiting}', 'scheduled', false, false, false,
    'its answer was a failure, or has not come in time'),
  ('succeed', '{running}', 'done', false, false, true, 'it succeeded'),
  ('park', '{running}', 'parked', false, false, true, 'it failed or was lost, with no attempts left'),
  ('shelve', '{running}', 'parked', true, false, true, 'it ended, and that cannot be recorded'),
  ('settle', '{scheduled}', 'scheduled', false, false, true, 'of the fires it missed it keeps this one'),
  ('put_off', '{scheduled}', 'scheduled', false, false, true, 'a blackout holds it'),
  ('next', '{scheduled}', 'scheduled', false, false, false, 'a fire was given up, and another follows'),
  ('next', '{claimed}', 'scheduled', false, false, false, 'a person skipped its fire, and another follows'),
  ('skip', '{scheduled}', 'skipped', false, false, true,
    'no node could run it in time, or a person skipped its last fire'),
  ('skip', '{claimed,waiting}', 'skipped', false, false, true, 'a person skipped its last fire'),
  ('cancel', '{waiting,scheduled,claimed,parked}', 'cancelled', false, false, true, 'a person gave it up'),
  ('cancel', '{running}', 'cancelled', false, false, true, 'a person gave it up, and it was stopped'),
  ('retry', '{parked}', 'scheduled', false, false, false, 'a person retries it'),
  ('replan', '{claimed}', 'scheduled', false, false, false, 'a person edits it'),
  ('replan', '{scheduled,parked}', 'scheduled', false, false, false, 'a person gives it another time'),
  ('free', '{waiting}', 'scheduled', false, false, false, 'it has lost the last of its parents'),
  ('count', '{waiting}', 'waiting', false, false, true, 'one of its parents has ended'),
  ('count', '{waiting}', 'scheduled', false, false, false, 'its parents have ended as it asks'),
  ('suspend', '{running}', 'waiting', false, false, true, 'its handler waits for a signal, or for a time'),
  ('go_on', '{waiting}', 'scheduled', false, false, false, 'what its handler waits for has come, or is over'),
  ('ask', '{running,done,cancelled}', 'waiting', false, false, true, 'its next fire needs a signal'),
  ('ask', '{scheduled,claimed}', 'waiting', false, false, true, 'it needs a signal that has not come'),
  ('ask', '{waiting}', 'waiting', false, false, true, 'its parents have ended, and it needs a signal'),
  ('ask', '{parked}', 'waiting', false, false, true, 'it is tried again, and needs a signal'),
  ('signal', '{waiting}', 'scheduled', false, false, false, 'its signal has come'),
  ('replan', '{waiting}', 'scheduled', false, false, false, 'a person edits what it waits for'),
  ('succeed', '{waiting}', 'done', false, false, true, 'its answer has come, or its members have ended'),
  ('park', '{waiting}', 'parked', false, false, true,
    'its answer was a failure or has not come, with no attempts left; or members of the batch have failed'),
  ('expire', '{waiting}', 'parked', false, false, true, 'its signal has not come in time'),
  ('next', '{waiting}', 'scheduled', false, false, false,
    'a fire is over or was given up, and another follows'),
  ('wait', '{waiting}', 'waiting', false, false, true, 'it has parents more, or fewer'),
  ('wait', '{scheduled,claimed}', 'waiting', false, false, true, 'it is given a parent'),
  ('unmet', '{waiting}', 'skipped', true, false, true, 'a parent has ended otherwise'),
  ('abandon', '{waiting,scheduled,claimed,parked}', 'cancelled', true, false, true,
    'a person gave up the run of its chain'),
  ('again', '{waiting,parked,done,cancelled,skipped}', 'waiting', true, false, true, 'its chain fires again'),
  ('next', '{parked,done,cancelled}', 'scheduled', false, false, false,
    'it is the root of its chain, which fires again'),
  ('join', '{waiting,scheduled,claimed}', 'waiting', true, false, true, 'it joins a chain that is running'),
  ('part', '{waiting}', 'waiting', true, false, true, 'its last edge is gone, and another one comes'),
  ('part', '{scheduled}', 'scheduled', true, false, true, 'its last edge is gone'),
  ('part', '{claimed}', 'scheduled', true, false, false, 'its last edge is gone'),
  ('reopen', '{scheduled}', 'scheduled', true, false, true, 'a person retries it'),
  ('reopen', '{waiting}', 'waiting', true, false, true, 'a parent that had ended is retried'),
  ('reopen', '{skipped}', 'waiting', true, false, true, 'a person retries the link that it was skipped for'),
  ('drop', '{waiting}', 'skipped', true, true, true, 'its chain has ended before it took part in a run'))
    v(event, was, becomes, alone, gone, quiet, says)
  cross join unnest(v.was::text[]) w(status);
-- What stays what it is: edited, paused or resumed, or deleted with its chain.
insert into pgrab_internal.transition (event, was, becomes, alone, gone, quiet, says)
select e.event, s.status, case when e.event in ('pause', 'resume') and s.status = 'claimed' then 'scheduled'
    when e.event = 'delete' then 'cancelled' else s.status end, true, e.event in ('leave', 'delete'),
  e.event in ('pause', 'leave', 'delete') or s.status = 'running', e.says
from (values ('edit', 'a person edits it'), ('pause', 'a person pauses it'),
    ('resume', 'a person resumes it'), ('leave', 'its chain is over'),
    ('delete', 'a person deletes it')) e(event, says)
  cross join unnest('{waiting,scheduled,claimed,running,parked,done,cancelled,skipped}'::text[]) s(status)
where s.status <> 'running' or e.event in ('pause', 'resume', 'delete');

-- First what nearly all have, because that is found at once.  fire_at: if it is not the task's.
create type pgrab_internal.note as (
  finished_at timestamptz, started_at timestamptz, outcome text, node text, error text, output text,
  output_truncated boolean, exit_code integer, fire_at timestamptz, cpu_seconds real, memory_bytes bigint,
  output_bytes bigint);
comment on type pgrab_internal.note is 'What the history is to say of a run, beside what its task says.';

-- due_at, if null: fire_at with the task's jitter, when that is given; otherwise as it is.  settled and the
-- others: see pgrab.task.  line: for which it waits in line now.
create type pgrab_internal.move as (
  id bigint, version bigint, event text, due_at timestamptz, fire_at timestamptz, run_at timestamptz,
  attempt integer, fires bigint, settled boolean, needs integer, met integer, run pgrab_internal.note,
  line text);
comment on type pgrab_internal.move is 'What is to become of a task.';

create or replace function pgrab_internal.move_to(
  p_id bigint, p_version bigint, p_event text, p_due_at timestamptz default null,
  p_fire_at timestamptz default null, p_run_at timestamptz default null, p_attempt integer default null,
  p_fires bigint default null, p_settled boolean default null, p_needs integer default null,
  p_met integer default null, p_run pgrab_internal.note default null, p_line text default null)
returns pgrab_internal.move
language sql immutable
return (p_id, p_version, p_event, p_due_at, p_fire_at, p_run_at, p_attempt, p_fires, p_settled, p_needs,
  p_met, p_run, p_line)::pgrab_internal.move;
comment on function pgrab_internal.move_to is 'A move; what is not given stays as it is.';

-- was, becomes: its status.  outcome, finished_at: those of its run, if it was running, or of a wait that was
-- in vain.  asks: it waits for a signal or an answer now.  fresh: its signals were for a fire that is over.
-- fire_at: the fire
-- that the move was about.  tells: it is a link whose end the chain has yet to be told of; counts: and its
-- children wait for that.  once: it is no link of a chain with a schedule.  gone: it has left pgrab.task.
create type pgrab_internal.moved as (
  id bigint, version bigint, incarnation bigint, event text, was text, becomes text, outcome text,
  finished_at timestamptz, chain bigint, fire_at timestamptz, tells boolean, counts boolean, once boolean,
  gone boolean, asks boolean, fresh boolean);
comment on type pgrab_internal.moved is 'A move that was made.';

-- A link of which this is true stays until its chain is over.
create or replace function pgrab_internal.is_over(p_status text) returns boolean
language sql immutable parallel safe
return p_status in ('done', 'cancelled', 'skipped');
comment on function pgrab_internal.is_over is 'Is this how a fire of a task ends for good?';

create or replace function pgrab_internal.ended(p_status text) returns boolean
language sql immutable parallel safe
return p_status = 'parked' or pgrab_internal.is_over(p_status);
comment on function pgrab_internal.ended is 'Is this how a fire of a task ends, for good or until a retry?';

-- A cancel is what somebody wanted; what waits or gave way goes on.
create or replace function pgrab_tool.run_is_failure(p_outcome text) returns boolean
language sql immutable parallel safe
return p_outcome in ('failed', 'timed_out', 'lost');
comment on function pgrab_tool.run_is_failure is 'Is this how a run ends that did not do its work?';

create or replace function pgrab_internal.note(p_outcome text, p_why text, p_fire timestamptz default null)
returns pgrab_internal.note
language plpgsql immutable as $$
declare
  r pgrab_internal.note;
begin
  r.outcome := p_outcome;
  r.error := p_why;
  r.fire_at := p_fire;
  return r;
end $$;
comment on function pgrab_internal.note is 'What the history is to say of a fire that is not run.';

create or replace function pgrab_internal.node_of(p_node_id bigint) returns text
language plpgsql stable as $$
begin
  return (select n.name from pgrab.registration n where n.id = p_node_id);
end $$;
comment on function pgrab_internal.node_of(bigint) is 'The name of a node. Null: it is gone.';

-- t: the row before the move.  A task that was edited since it was claimed is running, or was, with what it
-- was before.  An expression, which PostgreSQL inlines: then it reads no column that it does not use.
create or replace function pgrab_internal.noted(
  t pgrab_internal.task, r pgrab_internal.note, p_chain_id bigint, p_ended text)
returns pgrab_internal.run
language sql
return (t.id, t.version, case when pgrab_internal.under_way(t.status, t.incarnation) then t.incarnation end,
  case when pgrab_internal.under_way(t.status, t.incarnation) then t.node_id end, p_chain_id,
  coalesce(r.fire_at, t.fire_at),
  case when pgrab_internal.under_way(t.status, t.incarnation) then t.claimed_at end,
  case when pgrab_internal.under_way(t.status, t.incarnation) then coalesce(r.started_at, t.started_at) end,
  coalesce(r.finished_at, clock_timestamp()), t.created_at, t.attempt, r.exit_code,
  coalesce(r.output_truncated, false), r.outcome, p_ended,
  case when pgrab_internal.under_way(t.status, t.incarnation) and t.updated_at > t.claimed_at
    then coalesce(pgrab.definition_of(t.id, t.version) ->> 'kind', t.kind) else t.kind end,
  case when pgrab_internal.awaits(t.status, t.incarnation)
    then coalesce(r.node, pgrab_internal.node_of(t.node_id)) else r.node end,
  t.owner, t.key, t.name, r.error, r.output, case when p_ended is null then null
    when pgrab_internal.under_way(t.status, t.incarnation) then pgrab_internal.definition_ran(t)
    else pgrab_internal.definition(t) end,
  case when t.steps is null then null
    else pgrab_internal.steps_of(t.id, t.fire_at, t.version) end,
  case when t.wait_for is null and t.steps is null then null
    else pgrab_internal.signals_of(t.id) end, t.traceparent, r.cpu_seconds, r.memory_bytes,
  r.output_bytes)::pgrab_internal.run;
comment on function pgrab_internal.noted is
  'The row of the history for a fire of a task. p_ended: set when the task leaves pgrab.task with it.';

-- The columns of the type are those of the table, in its order.
create or replace function pgrab_internal.note_runs(p_runs pgrab_internal.run[]) returns void
language sql as $$
  insert into pgrab.run select r.* from unnest(p_runs) r
$$;
comment on function pgrab_internal.note_runs is 'Writes the history.';

-- Cheap, so that PostgreSQL inlines what it is an argument of.
create or replace function pgrab_internal.no_move(p_id bigint, p_event text, p_status text) returns text
language plpgsql immutable cost 1 as $$
begin
  raise exception using errcode = 'XX000',
    message = format('task %s is %s: %s is no move from there', p_id, p_status, p_event),
    hint = 'This is a bug of pgrab: the moves are in pgrab_internal.transition.';
end $$;
comment on function pgrab_internal.no_move is 'Refuses a move that is not in the table.';

-- As src/db/fault.c says.  A day of the history that is missing is no fault of a row; here only the text of
-- the error tells.
create or replace function pgrab_internal.row_fault(p_sqlstate text, p_message text) returns boolean
language sql immutable
return (left(p_sqlstate, 2) in ('22', '23', '2F', '38', '39', '44', '54', 'P0')
    or p_sqlstate in ('XX001', 'XX002'))
  and p_message not like 'no partition of relation%'
  and p_message not like '%violates partition constraint%';
comment on function pgrab_internal.row_fault is
  'Is an error about one of the rows of a statement (say, raised by a trigger of the user''s) and not about '
  'the server? Then the others are tried without it.';

create or replace function pgrab_internal.jitter_of(p_id bigint, p_jitter interval) returns interval
language sql immutable strict parallel safe
return p_jitter * ((hashint8extended(p_id, 1) & 1048575) / 1048576.0);
comment on function pgrab_internal.jitter_of is
  'How long the fires of a task are delayed: a pseudo-random part of its jitter, the same for each fire.';

create or replace function pgrab_internal.move_due(
  p_id bigint, p_event text, p_given timestamptz, p_due timestamptz, p_fire timestamptz, p_moved timestamptz,
  p_jitter interval)
returns timestamptz
language sql stable
return case
  when p_given is not null or p_event in ('line', 'queue') then p_given
  when p_moved is null and p_due is not null then p_due
  else coalesce(p_moved, p_fire) + pgrab_internal.jitter_of(p_id, p_jitter) end;
comment on function pgrab_internal.move_due is
  'When nodes look again at a task that can run: at p_given, or as it was planned, or at its new fire.';

-- What a quota holds stays held, whatever people write.
create or replace function pgrab_internal.move_line(p_event text, p_given text, p_line text) returns text
language sql immutable
return case when p_event in ('line', 'queue') then p_given
  when p_line like 'quota:held:%' and p_event in ('edit', 'replan', 'pause', 'resume', 'part', 'next')
    then p_line end;
comment on function pgrab_internal.move_line is
  'The line in which a task that can run stands after a move. Null: none.';

create or replace function pgrab_internal.move_paused(p_paused boolean, p_event text) returns boolean
language sql immutable
return case p_event when 'pause' then true when 'resume' then false else p_paused end;
comment on function pgrab_internal.move_paused is 'Is a task paused after a move?';

-- Steps are kept until the fire is over: also while the task is parked, because a retry goes on with that
-- fire.
--
-- A task that runs once leaves when it ends; so does a link of a chain that runs once, unless it is parked,
-- or skipped and may be brought back by a retry (pgrab.chain.stuck).  Bells: a fire within a second is a
-- retry or the next of a busy schedule; for what people do, 20 s, which is the longest that an idle node
-- sleeps.
create or replace function pgrab_internal.move_rows(p_moves pgrab_internal.move[])
returns pgrab_internal.moved[]
language plpgsql as $$
declare
  v_moved pgrab_internal.moved[];
  v_shards smallint[];
  v_forget bigint[];
begin
  with d as materialized (
    select m.*, o.incarnation, o.status as was, o.chain, o.batch, o.fire_at as fired,
      o.needs is not null as counts,
      h.root is null as once, w.becomes, x.alone, x.quiet,
      case when w.becomes = 'scheduled' then pgrab_internal.move_line(m.event, m.line, o.line) end as stands,
      w.over and (x.gone or w.becomes <> 'skipped' or h.stuck is not true) as gone,
      case when o.steps is not null then w.over or m.fire_at <> o.fire_at
        or pgrab_internal.is_over(w.becomes) or w.becomes = 'waiting'
        and m.event not in ('suspend', 'go_on', 'await', 'edit', 'pause', 'resume', 'part') end as forgets,
      case when (m.run).outcome <> 'waited' and (pgrab_internal.under_way(o.status, o.incarnation)
        or (m.run).outcome = 'timed_out' or m.event in ('succeed', 'park'))
        then (m.run).outcome end as outcome,
      w.becomes = 'waiting' and x.becomes = 'scheduled' as asks,
      m.event = 'await' or m.event in ('pause', 'resume')
        and pgrab_internal.under_way(o.status, o.incarnation) as stays,
      num_nonnulls(o.wait_for, o.steps) > 0 and (w.over or m.event in ('next', 'again')) as fresh,
      case when (m.run).outcome is not null and m.event <> 'shelve' then pgrab_internal.noted(
        row(o.*)::pgrab_internal.task, m.run, h.chain_id, case when w.over then w.becomes end) end as note
    from unnest(p_moves) m
      cross join lateral (
        select t.* from pgrab.task t where t.id = any (array[m.id]) and t.version = m.version offset 0) o
      left join pgrab_internal.transition x on x.event = m.event and x.was = o.status
      left join pgrab.chain h on h.chain = any (array[o.chain])
      cross join lateral (
        select coalesce(
            case when x.becomes <> 'scheduled' or o.wait_for is null and o.kind <> 'batch'
                then x.becomes
              when o.kind <> 'batch' and not pgrab_internal.lacks_signal(o.id, o.wait_for, m.event)
                then x.becomes
              else (select a.becomes from pgrab_internal.transition a
                where a.event = 'ask' and a.was = o.status) end,
            pgrab_internal.no_move(m.id, m.event, o.status)) as becomes,
          x.gone or x.was <> x.becomes and pgrab_internal.is_over(x.becomes) and h.root is null
            as over
        offset 0) w), -- by itself, or noted() would not be inlined: a subquery is no argument for that
  left_now as (
    delete from pgrab.task t using d
    where d.gone and t.id = any (array[d.id]) and t.version = d.version
    returning d.*, null::smallint as shard),
  kept as (
    update pgrab.task t
    set status = d.becomes, paused = pgrab_internal.move_paused(t.paused, d.event),
      line = d.stands,
      due_at = case when d.becomes = 'running' then t.due_at when d.becomes = 'scheduled' and d.stands is null
          and not pgrab_internal.move_paused(t.paused, d.event)
        then pgrab_internal.move_due(t.id, d.event, d.due_at, t.due_at, t.fire_at, d.fire_at, t.jitter) end,
      chain = case when d.event <> 'part' then t.chain end,
      fire_at = coalesce(d.fire_at, t.fire_at), run_at = coalesce(d.run_at, t.run_at),
      attempt = coalesce(d.attempt, t.attempt), fires = coalesce(d.fires, t.fires),
      settled = coalesce(d.settled, t.settled),
      met = case when d.event <> 'part' then coalesce(d.met, t.met) end,
      steps = case when d.event = 'suspend' then coalesce(t.steps, 0) + 1
        when d.forgets is not true then t.steps end,
      needs = case when d.event not in ('join', 'part') and not pgrab_internal.ended(d.becomes)
        then coalesce(d.needs, t.needs, case when d.asks and t.chain is not null then 0 end) end,
      version = t.version + case when d.stays then 0 else 1 end,
      node_id = case when d.stays then t.node_id end,
      incarnation = case when d.stays then t.incarnation end,
      claimed_at = case when d.stays then t.claimed_at end,
      started_at = case when d.event <> 'unstart' then t.started_at end,
      updated_at = case when d.event in ('edit', 'replan', 'pause', 'resume')
        then clock_timestamp() else t.updated_at end,
      runs = t.runs + case when d.outcome is null then 0 else 1 end,
      failures = t.failures + case when d.outcome not in ('succeeded', 'preempted') then 1 else 0 end,
      gave_way = case when d.outcome is null then t.gave_way when d.outcome = 'preempted'
        then coalesce(t.gave_way, '0') + ((d.run).finished_at - (d.run).started_at) end,
      last_outcome = coalesce(d.outcome, t.last_outcome),
      last_error = case when d.outcome is null then t.last_error else left((d.run).error, 1000) end,
      last_finished_at = case when d.outcome is null then t.last_finished_at
        else coalesce((d.run).finished_at, clock_timestamp()) end,
      succeeded_at = case when d.outcome = 'succeeded' then (d.run).finished_at else t.succeeded_at end,
      durations = case when d.outcome = 'succeeded' then pgrab_internal.durations_add(t.durations,
        (d.run).finished_at - coalesce((d.run).started_at, t.started_at)) else t.durations end
    from d
    where not d.gone and t.id = any (array[d.id]) and t.version = d.version
    returning d.*, case when not d.quiet and t.due_at < clock_timestamp()
        + case when d.was = 'running' then interval '1 s' else '20 s' end then pgrab.shard(t.id) end),
  made as (
    select * from left_now union all select * from kept),
  counted as (
    insert into pgrab.batch_count (batch, gone)
    select e.batch, count(*) from left_now e
    where e.batch is not null and e.becomes <> 'done' group by e.batch),
  written as (
    insert into pgrab.run select (e.note).* from made e where (e.note).outcome is not null)
  select array_agg((e.id, e.version, e.incarnation, e.event, e.was, e.becomes, e.outcome,
      (e.run).finished_at, e.chain, e.fired, e.chain is not null and pgrab_internal.ended(e.becomes)
      and not e.alone, e.counts, e.once, e.gone, e.asks or e.event = 'await', e.fresh)::pgrab_internal.moved),
    array_agg(distinct e.shard) filter (where e.shard is not null), array_agg(e.id) filter (where e.forgets)
  into v_moved, v_shards, v_forget
  from made e;
  if v_forget is not null then
    delete from pgrab.step s where s.task_id = any (v_forget);
  end if;
  if v_shards is not null then
    perform pgrab_internal.ring(v_shards);
  end if;
  return coalesce(v_moved, '{}');
end $$;
comment on function pgrab_internal.move_rows is
  'Writes or deletes the rows of tasks, and their history; rings for what is due soon.';

-- All links at once, so that the locks of their children are taken in one order.  A link that had ended
-- already, by being parked, has told its children; now its chain may be over.
create or replace function pgrab_internal.move_tells(p_moved pgrab_internal.moved[]) returns void
language plpgsql as $$
declare
  v_links bigint[];
  v_chains bigint[];
  v_ends text[];
  v_fires timestamptz[];
  v_over bigint[];
  v_counted boolean;
begin
  select array_agg(e.id) filter (where e.counts), array_agg(e.chain) filter (where e.counts),
    array_agg(e.becomes) filter (where e.counts), array_agg(e.fire_at) filter (where e.counts),
    bool_or(not e.once), array_agg(distinct e.chain) filter (where not e.counts)
  into v_links, v_chains, v_ends, v_fires, v_counted, v_over
  from unnest(p_moved) e where e.tells;
  if v_links is not null then
    perform pgrab_internal.chain_advance(v_links, v_chains, v_ends, v_fires, v_counted);
  end if;
  perform pgrab_internal.chain_end(c) from unnest(v_over) c;
end $$;
comment on function pgrab_internal.move_tells is 'Continues the chains of links that have ended.';

-- A receiver that has accepted a request, and a handler that waits, have done what was asked of them so far.
create or replace function pgrab_internal.run_failed(p_outcome text) returns boolean
language sql immutable
return case when p_outcome in ('failed', 'timed_out') then true
  when p_outcome in ('succeeded', 'waited', 'suspend', 'awaits', 'await') then false end;
comment on function pgrab_internal.run_failed is
  'What the end of a run says about what it works with. Null, for one that was lost or cancelled: nothing.';

-- p_outcomes: of the runs, or the events of their moves.
create or replace function pgrab_internal.runs_over(
  p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_outcomes text[]) returns void
language plpgsql as $$
begin
  if pg_relation_size('pgrab.limit_place') > 0 then
    perform pgrab_internal.limit_give_back(p_ids, p_versions, p_incarnations, p_outcomes);
  end if;
  if pg_relation_size('pgrab.cancel_request') > 0 then
    delete from pgrab.cancel_request c using unnest(p_ids, p_versions) f(id, version)
    where c.task_id = any (array[f.id]) and c.version = f.version;
  end if;
end $$;
comment on function pgrab_internal.runs_over is
  'Runs have ended, whatever became of their tasks: frees their places, and forgets that they were to stop.';

create or replace function pgrab_internal.move_follow(p_moved pgrab_internal.moved[], p_node text)
returns void
language plpgsql as $$
declare
  v_left bigint[];
  v_ids bigint[];
  v_versions bigint[];
  v_incarnations bigint[];
  v_ends text[];
  v_outcomes text[];
  v_tells boolean;
  v_asks bigint[];
begin
  select array_agg(e.id) filter (where e.gone and e.chain is not null), bool_or(e.tells),
    array_agg(e.id) filter (where e.asks), array_agg(distinct e.outcome) filter (where e.outcome is not null),
    array_agg(e.id) filter (where x.stops), array_agg(e.version) filter (where x.stops),
    array_agg(e.incarnation) filter (where x.stops),
    array_agg(coalesce(e.outcome, e.event)) filter (where x.stops)
  into v_left, v_tells, v_asks, v_outcomes, v_ids, v_versions, v_incarnations, v_ends
  from unnest(p_moved) e cross join lateral (
    select e.was = 'running' and e.becomes <> 'running' and e.event <> 'delete' as stops) x;
  if v_outcomes is not null then
    perform pgrab_internal.alert(p_moved, v_outcomes, p_node);
  end if;
  if v_left is not null and pg_relation_size('pgrab.edge') > 0 then
    perform pgrab_internal.edges_leave(v_left);
  end if;
  if v_tells then
    perform pgrab_internal.move_tells(p_moved);
  end if;
  if v_ids is not null then
    perform pgrab_internal.runs_over(v_ids, v_versions, v_incarnations, v_ends);
  end if;
  if pg_relation_size('pgrab.wait') > 0 or pg_relation_size('pgrab.signal') > 0 then
    perform pgrab_internal.waits_end(array_agg(e.id), array_agg(e.id) filter (where e.fresh))
    from unnest(p_moved) e where e.was = 'waiting' or e.fresh;
  end if;
  if v_asks is not null then
    perform pgrab_internal.waits_begin(v_asks);
  end if;
end $$;
comment on function pgrab_internal.move_follow is
  'What moves set in motion: alerts, chains, the next in line of a limit, and waits.';

-- p_node: the name of the node whose runs have ended.
create or replace function pgrab_internal.move(p_moves pgrab_internal.move[], p_node text default null)
returns pgrab_internal.moved[]
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_before text;
  v_moved pgrab_internal.moved[] := '{}';
begin
  if cardinality(p_moves) > 0 then
    v_before := pgrab_internal.link_ends('on');
    v_moved := pgrab_internal.move_rows(p_moves);
    perform pgrab_internal.move_follow(v_moved, p_node);
    perform set_config('pgrab.link_ends', v_before, true);
  end if;
  return v_moved;
end $$;
comment on function pgrab_internal.move is
  'Makes moves: the one door to what a task is about to do. The caller has locked the rows; those that have '
  'another version by now are left alone. Returns the moves that were made.';

create or replace function pgrab_internal.move_each(p_moves pgrab_internal.move[]) returns bigint
language plpgsql as $$
declare
  v_made bigint := 0;
  m pgrab_internal.move;
begin
  foreach m in array p_moves loop
    begin
      v_made := v_made + cardinality(pgrab_internal.move(array[m]));
    exception when others then
      if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
        raise;
      end if;
      raise warning 'task %: % is refused: %', m.id, m.event, sqlerrm;
    end;
  end loop;
  return v_made;
end $$;
comment on function pgrab_internal.move_each is
  'move(), one by one, because together they were refused; what is refused by itself, too, is left out. '
  'Returns how many were made.';

create or replace function pgrab_internal.move_one(t pgrab_internal.task, m pgrab_internal.move)
returns pgrab_internal.task
language plpgsql as $$
declare
  v_moved constant pgrab_internal.moved[] := pgrab_internal.move(array[m]);
begin
  if v_moved[1].gone then
    t.status := v_moved[1].becomes;
    t.due_at := null;
    t.node_id := null;
    t.incarnation := null;
    return t;
  end if;
  select x.* into t from pgrab.task x where x.id = t.id;
  return t;
end $$;
comment on function pgrab_internal.move_one is 'Makes one move, and returns the row as it is then.';
