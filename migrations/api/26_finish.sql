-- The end of a run, of any task and with any outcome.
--
-- How these statements keep their plans, whatever the statistics say and however many rows a batch has:
--   set enable_seqscan = off, jit = off, plan_cache_mode = force_generic_plan
--                          on the functions that nodes call; they apply to what is called from there, too
--   id = any (array[...])  instead of =: then the key is the only way to the row.  Otherwise a table that was
--                          vacuumed while empty and filled since is estimated at one row, and read from end
--                          to end for every batch
--   case when ... end      around a condition, so that the planner does not guess how few rows it leaves

-- What a run took, as far as that is known: see pgrab.run.
create type pgrab_internal.cost as (cpu_seconds real, memory_bytes bigint, output_bytes bigint);
comment on type pgrab_internal.cost is 'What a run took.';

-- Runs that have ended: arrays of equal length, sorted by id, the order in which the rows are locked; null
-- instead of an array of nulls.  Times are microseconds before now, on the node's monotonic clock.
-- retries_us: the wait before the next attempt that a handler asks for.  Null: as the task says.  -1: no
-- further attempt.  -1 - n: at least n.  Of a run that was lost: another run is to blame, and the attempt is
-- not counted.  Of one that could not begin: only its worker was taken, so it waits for nothing.
-- Of one that waits (outcome waited): for how long (null: for ever; -1: it is over already), and its error is
-- the name of the signal.
create type pgrab_internal.outcomes as (
  ids bigint[], versions bigint[], incarnations bigint[], started_us bigint[], finished_us bigint[],
  outcomes text[], exit_codes integer[], outputs text[], truncated boolean[], errors text[],
  retries_us bigint[], costs pgrab_internal.cost[]);
comment on type pgrab_internal.outcomes is 'Runs that have ended, as a node reports them.';

create or replace function pgrab_internal.outcome_rows(b pgrab_internal.outcomes)
returns table (id bigint, version bigint, incarnation bigint, started_at timestamptz, finished_at timestamptz,
  outcome text, exit_code integer, output text, truncated boolean, error text, retry_us bigint,
  cpu_seconds real, memory_bytes bigint, output_bytes bigint, n bigint)
language sql stable
begin atomic
  select f.id, f.version, f.incarnation, statement_timestamp() - f.started_us * interval '1 us',
    statement_timestamp() - f.finished_us * interval '1 us', f.outcome, f.exit_code, f.output,
    coalesce(f.truncated, false), f.error, f.retry_us, f.cpu_seconds, f.memory_bytes, f.output_bytes, f.n
  from unnest(b.ids, b.versions, b.incarnations, b.started_us, b.finished_us, b.outcomes, b.exit_codes,
    b.outputs, b.truncated, b.errors, b.retries_us, b.costs) with ordinality f(id, version, incarnation,
    started_us, finished_us, outcome, exit_code, output, truncated, error, retry_us, cpu_seconds,
    memory_bytes, output_bytes, n);
end;
comment on function pgrab_internal.outcome_rows is 'The runs of a batch as rows.';

create or replace function pgrab_internal.ends_plainly(p_status text, p_schedule text, p_limit_key text,
  p_steps integer, p_wait_for text, p_updated_at timestamptz, p_claimed_at timestamptz)
returns boolean
language sql immutable parallel safe
return p_status = 'running' and p_schedule is null and p_limit_key is null and p_steps is null
  and p_wait_for is null and p_updated_at <= p_claimed_at;
comment on function pgrab_internal.ends_plainly is
  'Is the success of a run the end of its task, as far as its own row says, with nothing but the history to '
  'write?';

-- Most runs end like this: the run succeeded and its task, plain or a link, has no next fire, so one
-- statement deletes the row and writes the history.  The chain is found by subqueries, because a join might
-- read the whole table for a few rows.  When the task became part of a chain while this statement waited for
-- its row, finish_rest() takes over.  links: some of them are links.
create or replace function pgrab_internal.finish_last(
  b pgrab_internal.outcomes, p_node_id bigint, p_node text, out moved pgrab_internal.moved[],
  out links boolean)
language plpgsql as $$
declare
  v_edges constant boolean := pg_relation_size('pgrab.edge') > 0;
begin
  with gone as (
    delete from pgrab.task t
    using pgrab_internal.outcome_rows(b) f
    where f.outcome = 'succeeded' and t.id = any (array[f.id]) and t.version = f.version
      and t.incarnation = f.incarnation
      and case when pgrab_internal.ends_plainly(t.status, t.schedule, t.limit_key, t.steps, t.wait_for,
          t.updated_at, t.claimed_at) and (t.chain is not null or t.run_at <= t.fire_at)
        then t.chain is null or (select c.root is null from pgrab.chain c where c.chain = t.chain) end
    returning t.id, t.attempt, t.version, t.incarnation, t.fire_at, t.claimed_at, t.created_at, t.kind,
      t.owner, t.key, t.name, t.traceparent, t.chain,
      (select c.chain_id from pgrab.chain c where c.chain = t.chain) as run,
      pgrab_internal.definition_own(row(t.*)::pgrab_internal.task)
        || case when v_edges and t.chain is not null then coalesce(pgrab_internal.edges_above(t.id), '{}')
          else '{}' end as definition,
      f.started_at, f.finished_at, f.exit_code, f.output, f.truncated, f.cpu_seconds, f.memory_bytes,
      f.output_bytes),
  noted as (
    insert into pgrab.run (task_id, version, incarnation, node_id, chain_id, fire_at, claimed_at, started_at,
      finished_at, created_at, attempt, exit_code, output_truncated, outcome, ended, kind, node, owner, key,
      name, output, definition, traceparent, cpu_seconds, memory_bytes, output_bytes)
    select g.id, g.version, g.incarnation, p_node_id, g.run, g.fire_at, g.claimed_at, g.started_at,
      g.finished_at, g.created_at, g.attempt, g.exit_code, g.truncated, 'succeeded', 'done', g.kind, p_node,
      g.owner, g.key, g.name, g.output, g.definition, g.traceparent, g.cpu_seconds,
      g.memory_bytes, g.output_bytes
    from gone g)
  select array_agg((g.id, g.version, g.incarnation, 'succeed', 'running', 'done', 'succeeded', g.finished_at,
    g.chain, g.fire_at, g.chain is not null, g.chain is not null, true, true, false,
    false)::pgrab_internal.moved), bool_or(g.chain is not null)
  into moved, links
  from gone g;
  moved := coalesce(moved, '{}');
end $$;
comment on function pgrab_internal.finish_last is
  'The part of finish() for runs that succeeded and were the last of their task. Returns those.';

-- As move_follow() asks for each.  The size of a table that was always empty is 0.
create or replace function pgrab_internal.plain_ends_heard() returns boolean
language plpgsql as $$
begin
  if pg_relation_size('pgrab.incident') > 0 or pg_relation_size('pgrab.limit_place') > 0
      or pg_relation_size('pgrab.cancel_request') > 0 or pg_relation_size('pgrab.wait') > 0
      or pg_relation_size('pgrab.signal') > 0 then
    return true;
  elsif pg_relation_size('pgrab.alert') = 0 then -- asked alone: a query is as dear as all of these
    return false;
  end if;
  return exists (select from pgrab.alert a where a.enabled and 'succeeded' = any (a.events));
end $$;
comment on function pgrab_internal.plain_ends_heard is
  'Could anything follow from the success of a task that is gone and was no link?';

-- The same for a single run of a task that is not a link: the usual case with few busy workers, and for every
-- sql task, in its own transaction.  There the cost of a function is that of its expressions, each of which
-- is prepared once per transaction; arrays and plans for many rows would cost three times as much as the two
-- writes.  (The setting for the delete trigger, see link_ends(), is made by assignments, which PL/pgSQL
-- evaluates without the executor that PERFORM starts.)  A cancel that committed while this waited for the row
-- is seen by a statement of its own.  Each table has an index to be read by: sessions of sql tasks have the
-- server's jit, which would compile a sequential scan, as one that is off counts as expensive.
create or replace function pgrab_internal.finish_one(
  p_id bigint, p_version bigint, p_incarnation bigint, p_started_us bigint, p_finished_us bigint,
  p_exit_code integer, p_output text, p_truncated boolean, p_cost pgrab_internal.cost, p_node_id bigint,
  p_node text)
returns boolean
language plpgsql set enable_seqscan = off as $$
declare
  v_setting text := set_config('pgrab.link_ends',
    (select k.value from pgrab_internal.key k where k.name = 'link_ends'), true);
  v_told boolean; -- somebody may want to hear of its success
begin
  with gone as (
    delete from pgrab.task t
    where t.id = any (array[p_id]) and t.version = p_version and t.incarnation = p_incarnation
      and case when pgrab_internal.ends_plainly(t.status, t.schedule, t.limit_key, t.steps, t.wait_for,
          t.updated_at, t.claimed_at) and t.chain is null and t.run_at <= t.fire_at
        then not exists (select from pgrab.limit_place l where l.task_id = any (array[t.id])) end
    returning t.id, t.attempt, t.version, t.incarnation, t.fire_at, t.claimed_at, t.created_at, t.kind,
      t.owner, t.key, t.name, t.traceparent, pgrab_internal.definition_own(row(t.*)::pgrab_internal.task)
        as definition),
  noted as (
    insert into pgrab.run (task_id, version, incarnation, node_id, fire_at, claimed_at, started_at,
      finished_at, created_at, attempt, exit_code, output_truncated, outcome, ended, kind, node, owner, key,
      name, output, definition, traceparent, cpu_seconds, memory_bytes, output_bytes)
    select g.id, g.version, g.incarnation, p_node_id, g.fire_at, g.claimed_at,
      statement_timestamp() - p_started_us * interval '1 us',
      statement_timestamp() - p_finished_us * interval '1 us', g.created_at, g.attempt, p_exit_code,
      coalesce(p_truncated, false), 'succeeded', 'done', g.kind, p_node, g.owner, g.key, g.name, p_output,
      g.definition, g.traceparent, p_cost.cpu_seconds, p_cost.memory_bytes, p_cost.output_bytes
    from gone g)
  select exists (select from pgrab.incident i where i.task_id = any (array[g.id]))
    or exists (select from pgrab.alert a where a.enabled and 'succeeded' = any (a.events))
  into v_told
  from gone g;
  v_setting := set_config('pgrab.link_ends', '', true);
  if pg_relation_size('pgrab.cancel_request') > 0 then -- however many dead rows an old snapshot keeps
    delete from pgrab.cancel_request c where c.task_id = any (array[p_id]) and c.version = p_version;
  end if;
  if v_told then
    perform pgrab_internal.alert(array[(p_id, p_version, p_incarnation, 'succeed', 'running', 'done',
        'succeeded', statement_timestamp() - p_finished_us * interval '1 us', null, null, false, false, true,
        true, false, false)::pgrab_internal.moved], array['succeeded'], p_node);
  end if;
  return v_told is not null;
end $$;
comment on function pgrab_internal.finish_one is
  'finish() for one run that succeeded and was the last of a task that is not a link. False: it does not '
  'apply, and nothing was done.';

-- Calculated in seconds, because an interval times 2^40 overflows before least() sees it.
create or replace function pgrab_internal.retry_wait(p_backoff interval, p_backoff_max interval,
  p_attempt integer)
returns interval
language sql volatile parallel safe
return least(
    extract(epoch from p_backoff)::float8 * power(2, least(greatest(p_attempt, 1) - 1, 40)),
    extract(epoch from p_backoff_max)::float8)
  * (0.9 + 0.2 * random()) * interval '1 s';
comment on function pgrab_internal.retry_wait is
  'Wait after attempt n: backoff * 2^(n-1), at most backoff_max, +-10 %.';

-- p_retry_us: as in pgrab_internal.outcomes.
create or replace function pgrab_internal.retry_at(
  p_backoff interval, p_backoff_max interval, p_attempt integer, p_retry_us bigint)
returns timestamptz
language sql volatile
begin atomic
  select case
    when p_retry_us >= 0 then clock_timestamp() + p_retry_us * interval '1 us'
    when p_retry_us < -1 then clock_timestamp() + greatest(
      pgrab_internal.retry_wait(p_backoff, p_backoff_max, p_attempt),
      least(-1 - p_retry_us, 86400000000) * interval '1 us')
    else clock_timestamp() + pgrab_internal.retry_wait(p_backoff, p_backoff_max, p_attempt) end;
end;
comment on function pgrab_internal.retry_at is 'When a task that failed is tried again.';

-- Its own fault is one that no further attempt mends.
create or replace function pgrab_internal.wait_fault(t pgrab_internal.task, p_state text) returns text
language sql immutable
return case
  when t.delivery = 'at_most_once' then 'a task with delivery at_most_once cannot wait in its run, because '
    'it would be started again: let it wait before (wait_for), or let a child go on'
  when p_state in ('full', 'bad') or t.steps >= 1000 then 'it cannot wait: the fire has done 1000 steps' end;
comment on function pgrab_internal.wait_fault is
  'Why a run cannot wait. Null: it can. p_state: what steps_record() says of the wait.';

-- Signals that have come first become steps here.  Their rows are locked.
create or replace function pgrab_internal.finish_waits(b pgrab_internal.outcomes)
returns pgrab_internal.outcomes
language plpgsql as $$
declare
  v record;
begin
  -- An element that is written into no array at all would be its first.  Errors has the names of the signals.
  b.retries_us := coalesce(b.retries_us, array_fill(null::bigint, array[cardinality(b.ids)]));
  for v in
    select f.n, r.state, pgrab_internal.wait_fault(row(t.*)::pgrab_internal.task, r.state) as fault
    from pgrab_internal.outcome_rows(b) f
      join pgrab.task t on t.id = any (array[f.id])
      cross join lateral pgrab_internal.steps_record(array[f.id], array[f.version], array[f.incarnation],
        array['wait:' || f.error], array[null::text]) r
    where f.outcome = 'waited'
  loop
    if v.fault is not null and v.state <> 'recorded' then
      b.outcomes[v.n] := 'failed';
      b.errors[v.n] := v.fault;
      b.retries_us[v.n] := -1;
    elsif v.state = 'recorded' then
      b.retries_us[v.n] := -1;
    end if;
  end loop;
  return b;
end $$;
comment on function pgrab_internal.finish_waits is
  'Runs of a batch that end to wait: finds those that need not, or cannot.';

create or replace function pgrab_internal.waits_open(
  b pgrab_internal.outcomes, p_moved pgrab_internal.moved[]) returns void
language plpgsql as $$
declare
  v_until timestamptz;
begin
  with begun as (
    insert into pgrab.wait as w (task_id, name, since, until, goes_on)
    select f.id, f.error, f.finished_at, f.finished_at + f.retry_us * interval '1 us', true
    from unnest(p_moved) m
      join pgrab_internal.outcome_rows(b) f on f.id = m.id and f.version = m.version
    where m.event = 'suspend'
    on conflict (task_id) do update
    set name = excluded.name, since = excluded.since, until = excluded.until, goes_on = true, told = '0'
    returning w.until)
  select min(g.until) into v_until from begun g;
  perform pgrab_internal.waits_ring(v_until);
end $$;
comment on function pgrab_internal.waits_open is
  'Writes down for what handlers wait whose runs have ended for that.';

-- For all that finish_last() has not ended: see the list at finish_many().  The rows are locked by a
-- statement of their own, so that the next one sees the chains that the tasks became part of while this one
-- waited.  The calendar is called once per batch, and equal questions are worked out once.
create or replace function pgrab_internal.finish_moves(b pgrab_internal.outcomes, p_node text)
returns pgrab_internal.move[]
language plpgsql as $$
declare
  v_moves pgrab_internal.move[];
  v_ids bigint[]; -- of those with a calendar
  v_afters timestamptz[];
  v_fires timestamptz[];
begin
  perform from pgrab_internal.outcome_rows(b) f cross join lateral (
    select from pgrab.task t
    where t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation for update) l;
  if 'waited' = any (b.outcomes) then
    b := pgrab_internal.finish_waits(b);
  end if;
  with e as materialized (
    select t.id, t.version, t.fires, t.ends_at, t.schedule is null as once, o.outcome, a.again, f.n,
      f.retry_us, t.chain,
      case when t.run_at > t.fire_at and t.chain is null then t.run_at end as moved, -- while it ran
      t.attempt - u.uncounted::int as attempt,
      case when o.outcome = 'not_started'
          then case when f.retry_us >= 0 then t.due_at else clock_timestamp() + interval '2 s' end
        when not a.again then null
        when o.outcome in ('lost', 'preempted') then least(t.due_at, clock_timestamp())
        else pgrab_internal.retry_at(t.backoff, t.backoff_max, t.attempt, f.retry_us) end as due_at,
      case when p.plan then t.schedule end as schedule, case when p.plan then t.timezone end as timezone,
      case when p.plan then t.calendar end as calendar, case when p.plan then t.on_closed end as on_closed,
      case when p.plan then pgrab_internal.fire_after(t.schedule, t.starts_at, t.fire_at, f.finished_at) end
        as after,
      (f.finished_at, f.started_at, o.outcome, p_node,
        case when f.outcome = 'waited' then 'waits for signal ' else '' end || f.error, f.output,
        f.truncated, f.exit_code, null, f.cpu_seconds, f.memory_bytes,
        f.output_bytes)::pgrab_internal.note as run
    from pgrab_internal.outcome_rows(b) f
      join pgrab.task t on t.id = any (array[f.id]) and t.version = f.version
        and t.incarnation = f.incarnation and case when pgrab_internal.under_way(t.status, t.incarnation)
          then true end
      cross join lateral (
        select case when f.outcome <> 'succeeded' and exists (
            select from pgrab.cancel_request c where c.task_id = t.id and c.version = t.version)
          then 'cancelled' else f.outcome end as outcome) o
      cross join lateral (
        select o.outcome = 'preempted' or o.outcome = 'lost' and f.retry_us is not null as uncounted) u
      cross join lateral (
        select o.outcome not in ('succeeded', 'cancelled', 'waited')
          and (t.attempt < t.max_attempts or u.uncounted)
          and t.delivery = 'at_least_once' and (f.retry_us is distinct from -1 or o.outcome = 'preempted')
          and (t.run_at <= t.fire_at or t.chain is not null
            or u.uncounted and pgrab_internal.text_stays(row(t.*)::pgrab_internal.task))
          or o.outcome = 'awaits' as again) a
      cross join lateral (
        select not a.again and o.outcome <> 'waited' and t.schedule is not null and t.chain is null
          and (t.fires + 1 < t.max_runs or t.max_runs is null) as plan) p),
  next as materialized ( -- the calendar is called once, not for each row
    select n.ord, n.fire
    from (
      select array_agg(e.schedule order by e.n), array_agg(e.timezone order by e.n),
        array_agg(e.after order by e.n),
        case when count(e.calendar) > 0 then array_agg(e.calendar order by e.n) end,
        case when count(e.calendar) > 0 then array_agg(e.on_closed order by e.n) end
      from e having count(e.schedule) > 0) q(schedules, zones, afters, calendars, closes)
      cross join lateral pgrab_internal.next_fires(q.schedules, q.zones, q.afters, q.calendars, q.closes) n)
  select array_agg(case
    when e.outcome = 'not_started' then pgrab_internal.move_to(e.id, e.version, 'unstart',
      p_fire_at => case when e.once then e.moved end, p_due_at => greatest(e.due_at,
      case when e.once then e.moved end), p_attempt => e.attempt - 1) -- an edit made it another fire
    when e.outcome = 'waited' and e.moved is null then pgrab_internal.move_to(e.id, e.version,
      case when e.retry_us = -1 then 'retry' else 'suspend' end, p_due_at => clock_timestamp(),
      p_attempt => e.attempt - 1, p_settled => true, p_run => e.run,
      p_needs => case when e.chain is not null and e.retry_us is distinct from -1 then 0 end)
    when e.outcome = 'awaits' then pgrab_internal.move_to(e.id, e.version, 'await')
    when e.again then pgrab_internal.move_to(e.id, e.version, 'retry', p_due_at => e.due_at,
      p_attempt => e.attempt, p_settled => case when e.outcome = 'preempted' then true end, p_run => e.run)
    when f.fire <= coalesce(e.ends_at, 'infinity') then pgrab_internal.move_to(e.id, e.version, 'next',
      p_fire_at => f.fire, p_run_at => f.fire, p_attempt => 0, p_fires => e.fires + 1, p_settled => false,
      p_run => e.run)
    else pgrab_internal.move_to(e.id, e.version, case e.outcome when 'succeeded' then 'succeed'
      when 'cancelled' then 'cancel' else 'park' end, p_fires => e.fires + 1, p_run => e.run) end),
    array_agg(e.id) filter (where q.closes),
    array_agg(e.after) filter (where q.closes),
    array_agg(f.fire) filter (where q.closes)
  into v_moves, v_ids, v_afters, v_fires
  from (select e.*, row_number() over (order by e.n) as ord from e) e left join next n on n.ord = e.ord
    cross join lateral (select coalesce(e.moved, n.fire) as fire) f
    cross join lateral (
      select e.calendar is not null and e.moved is null and f.fire <= coalesce(e.ends_at, 'infinity')
        as closes) q;
  if v_ids is not null then
    perform pgrab_internal.note_closed(v_ids, v_afters, v_fires);
  end if;
  return v_moves;
end $$;
comment on function pgrab_internal.finish_moves is
  'What becomes of the tasks of a batch whose fence still matches; their rows are locked.';

create or replace function pgrab_internal.finish_rest(b pgrab_internal.outcomes, p_node text)
returns pgrab_internal.moved[]
language plpgsql as $$
declare
  v_moved constant pgrab_internal.moved[] :=
    pgrab_internal.move_rows(pgrab_internal.finish_moves(b, p_node));
begin
  if 'waited' = any (b.outcomes) then
    perform pgrab_internal.waits_open(b, v_moved);
  end if;
  return v_moved;
end $$;
comment on function pgrab_internal.finish_rest is
  'The part of finish() for tasks that are planned again, parked, or kept by their chain. Returns the runs '
  'whose fence still matched.';

-- The end of a run is recorded, and its task planned again.  versions and incarnations are the fence: a run
-- whose fence does not match changes nothing and is not returned; it may still hold a place under a limit.
--   could not begin           as if it had not been started: no attempt is counted, and it is tried again in
--                             2 s, or at once if only its worker was taken
--   awaits                    its answer comes later: 57_answer.sql ends it
--   failed, attempts left     tried again after its backoff; a run that was lost with its node, at once
--   waits                     waits, or at once goes on, as the same attempt: 19_wait.sql
--   over, another fire        re-armed: a failure ends a run, never a schedule.  So is a task that was given
--                             a new run_at while it ran; but if the attempt is not counted (it gave way, or
--                             was lost because of another), it first goes on, unless its text was edited
--   over, no other fire       leaves the table when it succeeded or was cancelled; otherwise it is parked
--   over, link of a chain     done, cancelled or parked; leaves as above when the chain runs once
-- What finish_last() has ended is not found again by finish_rest().
create or replace function pgrab_internal.finish_many(
  b pgrab_internal.outcomes, p_node_id bigint, p_node text)
returns pgrab_internal.moved[]
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_before text := pgrab_internal.link_ends('on');
  v_last record;
  v_moved pgrab_internal.moved[] := '{}';
  v_heard boolean := true;
begin
  if 'succeeded' = any (b.outcomes) then
    v_last := pgrab_internal.finish_last(b, p_node_id, p_node);
    v_moved := v_last.moved;
    v_heard := v_last.links;
  end if;
  if cardinality(v_moved) < cardinality(b.ids) then
    v_moved := v_moved || pgrab_internal.finish_rest(b, p_node);
    v_heard := true;
  end if;
  if v_heard or pgrab_internal.plain_ends_heard() then
    perform pgrab_internal.move_follow(v_moved, p_node);
  end if;
  if cardinality(v_moved) < cardinality(b.ids) then
    perform pgrab_internal.runs_over(b.ids, b.versions, b.incarnations, b.outcomes);
  end if;
  v_before := set_config('pgrab.link_ends', v_before, true);
  return v_moved;
end $$;
comment on function pgrab_internal.finish_many is 'finish() for any number of runs, with any outcome.';

-- What the server refuses to record now it would refuse each time.
create or replace function pgrab_internal.park(p_id bigint, p_version bigint, p_incarnation bigint,
  p_outcome text, p_why text, p_node text, p_recorded boolean) returns boolean
language plpgsql as $$
declare
  r pgrab_internal.note := pgrab_internal.note(p_outcome, p_why);
begin
  r.node := p_node;
  perform from pgrab.task t
  where t.id = p_id and t.version = p_version and t.incarnation = p_incarnation and t.status = 'running'
  for update;
  if not found then
    perform pgrab_internal.runs_over(array[p_id], array[p_version], array[p_incarnation], array[p_outcome]);
    return false;
  end if;
  return cardinality(pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version,
    case when p_recorded then 'park' else 'shelve' end, p_fires => t.fires + 1, p_run => r)), p_node)) > 0
  from pgrab.task t where t.id = p_id;
end $$;
comment on function pgrab_internal.park is
  'Parks a task whose end the server refuses to record. p_recorded: false when it is the history, or the '
  'children of a link, that are refused: they wait until a user retries the task.';

create or replace function pgrab_internal.finish(b pgrab_internal.outcomes, p_node_id bigint, p_node text)
returns table (task_id bigint, version bigint)
language plpgsql as $$
declare
  v_done boolean;
begin
  if cardinality(b.ids) = 1 and b.outcomes[1] = 'succeeded' then
    v_done := pgrab_internal.finish_one(b.ids[1], b.versions[1], b.incarnations[1], b.started_us[1],
      b.finished_us[1], b.exit_codes[1], b.outputs[1], b.truncated[1], b.costs[1], p_node_id, p_node);
  end if;
  if v_done then
    task_id := b.ids[1];
    version := b.versions[1];
    return next;
  else
    return query select e.id, e.version from unnest(pgrab_internal.finish_many(b, p_node_id, p_node)) e;
  end if;
end $$;
comment on function pgrab_internal.finish is
  'Records runs that have ended and plans what comes next. Returns those whose fence, (id, version, '
  'incarnation), still matched.';

create or replace function pgrab_internal.run_key_make(p_incarnation bigint) returns void
language sql as $$
  with gone as (
    delete from pgrab_internal.run_key k
    where k.at < now() - interval '1 day'
      and not exists (select from pgrab.node n where n.incarnation = k.incarnation))
  insert into pgrab_internal.run_key (incarnation, key)
  select p_incarnation, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
  on conflict (incarnation) do nothing
$$;
comment on function pgrab_internal.run_key_make is
  'Makes a key for the sql runs of an incarnation that is about to register, and deletes old keys.';

-- A sql run on a connection of the task's owner shows this proof, so that its finish is accepted: only the
-- node that has started the run knows the key, and no two runs have the same proof.
create or replace function pgrab_internal.run_proof(p_incarnation bigint, p_id bigint, p_version bigint)
returns text
language sql stable as $$
  select encode(sha256(k.key || int8send(p_id) || int8send(p_version)), 'hex')
  from pgrab_internal.run_key k where k.incarnation = p_incarnation
$$;
comment on function pgrab_internal.run_proof is
  'The proof that a node has started this run: a hash of its incarnation''s key, the task and its version.';

create or replace function pgrab_internal.finish_run(
  p_id bigint, p_version bigint, p_incarnation bigint, p_began_us bigint, p_output text, p_truncated boolean,
  p_node_id bigint, p_node text)
returns void
language plpgsql as $$
declare
  v_moved pgrab_internal.moved[];
begin
  if pgrab_internal.finish_one(
    p_id, p_version, p_incarnation, p_began_us, 0, null, p_output, p_truncated, null, p_node_id, p_node) then
    return;
  end if;
  v_moved := pgrab_internal.finish_many((array[p_id], array[p_version], array[p_incarnation],
    array[p_began_us], array[0]::bigint[], array['succeeded'], array[null]::integer[], array[p_output],
    array[p_truncated], array[null]::text[], null, null)::pgrab_internal.outcomes, p_node_id, p_node);
  if cardinality(v_moved) = 0 then
    perform pgrab_internal.run_lost(p_id);
  end if;
end $$;
comment on function pgrab_internal.finish_run is
  'Records the success of one run, in the transaction of its work. Raises serialization_failure when the '
  'run no longer belongs to that incarnation, so that the work is rolled back.';

-- The runs of a group (sql_group of a node) end together, each of them at its own time: all or none.  Times
-- are microseconds before now.
create or replace function pgrab_internal.finish_runs(
  p_ids bigint[], p_versions bigint[], p_incarnation bigint, p_began_us bigint[], p_ended_us bigint[],
  p_outputs text[], p_truncated boolean[], p_node_id bigint, p_node text)
returns void
language plpgsql as $$
declare
  v_n constant integer := cardinality(p_ids);
  v_moved constant pgrab_internal.moved[] := pgrab_internal.finish_many((p_ids, p_versions,
    array_fill(p_incarnation, array[v_n]), p_began_us, p_ended_us, array_fill('succeeded'::text, array[v_n]),
    null, p_outputs, p_truncated, null, null, null)::pgrab_internal.outcomes, p_node_id, p_node);
begin
  if cardinality(v_moved) < v_n then
    perform pgrab_internal.run_lost(u.id)
    from unnest(p_ids) u(id) where u.id not in (select m.id from unnest(v_moved) m);
  end if;
end $$;
comment on function pgrab_internal.finish_runs is
  'Records the success of several runs, in the transaction of their work. Raises serialization_failure when '
  'one of them no longer belongs to that incarnation, so that the work of all is rolled back.';
