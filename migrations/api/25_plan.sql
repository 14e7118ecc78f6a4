-- Planning: when a task first fires, what becomes of fires that no node ran, and what the history says about
-- a fire without a run.
--
-- A fire has a planned time (fire_at) and a time at which nodes look at it (due_at): the planned time plus
-- the task's jitter; later while a retry waits.  Re-arming counts from the planned time, not from now, so
-- that no fire is forgotten: one in the past is due at once, and one that has been due for longer than
-- misfire_after is missed (misfire() below).  That is the only rule for missed fires: after a pause, a drain,
-- the loss of nodes or a long run.  The time of a blackout does not count: see 25_blackout.sql.

create or replace function pgrab_internal.every_seconds(p_schedule text) returns interval
language sql stable
return make_interval(secs => (pgrab_internal.schedule_compile(p_schedule))[2]);
comment on function pgrab_internal.every_seconds is 'The interval of a schedule with @every or @after.';

create or replace function pgrab_internal.first_fire(t pgrab_internal.task) returns timestamptz
language sql stable
begin atomic
  select case when f.after is null then t.starts_at
    else pgrab_internal.fire_next(f.cron, t.timezone, f.after, t.calendar, t.on_closed) end
  from (
    select pgrab_internal.schedule_compile(t.schedule) as cron, case
      when t.starts_at <= now() or t.starts_at is null then now()
      when pgrab_internal.schedule_kind(t.schedule) = 'cron' then t.starts_at - interval '1 us'
      when t.calendar is not null then t.starts_at - pgrab_internal.every_seconds(t.schedule) end as after
    offset 0) f;
end;
comment on function pgrab_internal.first_fire is
  'First fire of a schedule from now on, not before its starts_at. @every and @after fire first at '
  'starts_at, or one interval from now.';

-- The next fire is counted from the planned time, for @after from the end of the run.
create or replace function pgrab_internal.fire_base(
  p_schedule text, p_fire_at timestamptz, p_ended timestamptz)
returns timestamptz
language sql immutable parallel safe
return case when p_schedule like '%@%' and pgrab_internal.schedule_kind(p_schedule) = 'after' then p_ended
  else p_fire_at end;
comment on function pgrab_internal.fire_base is 'The moment from which the next fire of a schedule counts.';

create or replace function pgrab_internal.fire_not_before(
  p_schedule text, p_starts_at timestamptz, p_base timestamptz)
returns timestamptz
language sql stable
return case
  when p_starts_at <= p_base then p_base
  when pgrab_internal.schedule_kind(p_schedule) = 'cron' then p_starts_at - interval '1 us'
  else p_starts_at - pgrab_internal.every_seconds(p_schedule) end;
comment on function pgrab_internal.fire_not_before is
  'The moment after which the next fire is looked for, when the schedule begins at p_starts_at.';

-- But not from before starts_at: the task may have been run by hand before that.  Evaluated for every fire,
-- so it is an expression that PostgreSQL inlines: a call would cost twice as much as reading the row.
create or replace function pgrab_internal.fire_after(
  p_schedule text, p_starts_at timestamptz, p_fire_at timestamptz, p_ended timestamptz)
returns timestamptz
language sql stable
return case when p_starts_at is null then pgrab_internal.fire_base(p_schedule, p_fire_at, p_ended)
  else pgrab_internal.fire_not_before(p_schedule, p_starts_at,
    pgrab_internal.fire_base(p_schedule, p_fire_at, p_ended)) end;
comment on function pgrab_internal.fire_after is
  'The moment after which the next fire of a schedule is looked for.';

-- A link's own run_at is no fire: its chain plans it.
create or replace function pgrab_internal.fire_following(t pgrab_internal.task, p_fires bigint)
returns timestamptz
language sql stable
begin atomic
  select n.fire
  from (
    select case when t.run_at > t.fire_at and t.chain is null then t.run_at -- given while it ran
      when t.schedule is not null and (p_fires < t.max_runs or t.max_runs is null)
        then pgrab_internal.fire_next(pgrab_internal.schedule_compile(t.schedule), t.timezone,
          pgrab_internal.fire_after(t.schedule, t.starts_at, t.fire_at, clock_timestamp()), t.calendar,
          t.on_closed) end as fire
    where t.status <> 'parked') n
  where n.fire <= t.ends_at or t.ends_at is null;
end;
comment on function pgrab_internal.fire_following is
  'The next fire of a task that has had this many. Null: there is none.';

-- The history must not say of such a fire what belongs to the one that is ending.
create or replace function pgrab_internal.without_run(t pgrab_internal.task) returns pgrab_internal.task
language plpgsql immutable as $$
begin
  t.status := 'scheduled';
  t.attempt := 0;
  t.steps := null;
  t.wait_for := null;
  return t;
end $$;
comment on function pgrab_internal.without_run is
  'A task as the history takes it for a fire that has no run.';

-- What has a row already, because the calendar was edited since, gets no other.  Fires of tasks that have the
-- same plan are worked out once.  The history is asked by a subquery that PostgreSQL cannot make a join of:
-- that would read all of it.
create or replace function pgrab_internal.note_closed(
  p_ids bigint[], p_from timestamptz[], p_fire timestamptz[]) returns void
language plpgsql as $$
begin
  perform pgrab_internal.note_runs(array_agg(pgrab_internal.noted(pgrab_internal.without_run(n.t),
    pgrab_internal.note('skipped', n.why, n.at), null, null)))
  from (
    with asked as materialized (
      select row(t.*)::pgrab_internal.task as t, n.after, n.fire, t.schedule, t.timezone, t.calendar,
        t.on_closed
      from unnest(p_ids, p_from, p_fire) n(id, after, fire) join pgrab.task t on t.id = any (array[n.id])),
    closed as materialized (
      select g.*, f.fire as at, f.why
      from (select distinct a.schedule, a.timezone, a.after, a.fire, a.calendar, a.on_closed from asked a) g
        cross join lateral pgrab_internal.fires_closed(
          g.schedule, g.timezone, g.after, g.fire, g.calendar, g.on_closed) f)
    select a.t, c.at, c.why
    from asked a join closed c using (schedule, timezone, after, fire, calendar, on_closed)) n
  where (
    select true from pgrab.run r
    where r.task_id = (n.t).id and r.fire_at = n.at and r.outcome = 'skipped' limit 1) is null
  having count(*) > 0;
end $$;
comment on function pgrab_internal.note_closed is
  'Writes the history of the fires of tasks that are not run because of a calendar, when p_fire is the next '
  'one after p_from.';

-- For a task that is not running.  p_event: what it is without a next fire.  One that is between two attempts
-- has had this fire.  Returns the row as it is then.  The caller holds its lock.
create or replace function pgrab_internal.give_up_fire(
  t pgrab_internal.task, p_outcome text, p_event text, p_why text)
returns pgrab_internal.task
language plpgsql as $$
declare
  c_begun constant boolean := pgrab_internal.has_begun(t.attempt, t.steps);
  c_fires constant bigint := t.fires + c_begun::integer;
  c_next constant timestamptz := pgrab_internal.fire_following(t, c_fires);
  c_note constant pgrab_internal.note := pgrab_internal.note(p_outcome, p_why, t.fire_at);
begin
  if c_next is null or t.chain is not null and c_begun then
    return pgrab_internal.move_one(t, pgrab_internal.move_to(t.id, t.version, p_event, p_run => c_note));
  end if;
  if t.calendar is not null and c_next <> t.run_at then -- else a person has said when
    perform pgrab_internal.note_closed(array[t.id], array[t.fire_at], array[c_next]);
  end if;
  t := pgrab_internal.move_one(t, pgrab_internal.move_to(t.id, t.version, 'next', p_fire_at => c_next,
    p_run_at => c_next, p_attempt => 0, p_fires => c_fires, p_settled => false, p_run => c_note));
  -- The fire that was given up counts as a run of its chain, in which nothing ran.
  update pgrab.chain c set chain_id = nextval('pgrab.chain_run_seq'), since = clock_timestamp()
  where c.chain = t.chain;
  return t;
end $$;
comment on function pgrab_internal.give_up_fire is
  'Records that the planned fire will not be run, and plans the next one.';

-- Of the fires before p_keep, which will not be run, the first hundred get a row each; the last of these says
-- how far the others go.
create or replace function pgrab_internal.note_fires(
  t pgrab_internal.task, p_keep timestamptz, p_outcome text, p_why text)
returns void
language plpgsql as $$
declare
  c_rows constant integer := 100;
  v_fires constant timestamptz[] := t.fire_at || array(
    select f from pgrab_internal.fires_on(t.schedule, t.timezone, t.fire_at, p_keep - interval '1 us',
      t.calendar, t.on_closed) f limit c_rows);
  c_first constant pgrab_internal.run :=
    pgrab_internal.noted(t, pgrab_internal.note(p_outcome, p_why, t.fire_at), null, null);
begin
  perform pgrab_internal.note_runs(array_agg(jsonb_populate_record(c_first, jsonb_build_object(
    'fire_at', f.fire, 'finished_at', clock_timestamp(), -- pages of the history go by the latter
    'error', case when f.n = c_rows and cardinality(v_fires) > c_rows
      then format('%s; nor any other before %s', p_why, p_keep) else p_why end))))
  from unnest(v_fires) with ordinality f(fire, n) where f.n <= c_rows;
end $$;
comment on function pgrab_internal.note_fires is
  'Writes the history of the fires that are not run, from the planned one up to p_keep.';

-- As far as it is known at that moment; that the nodes were busy is told by the history (why_late()).
create or replace function pgrab_internal.misfire_why(t pgrab_internal.task) returns text
language plpgsql stable as $$
begin
  return concat_ws('; ', 'no node could run it within misfire_after', (
    select format(x.what, date_trunc('second', x.until))
    from (
      (select e.at as until, format('it was paused, and %s resumed it at %%s', e.role) as what
      from pgrab.event e where e.task_id = t.id and e.what = 'resume' and e.at > t.fire_at
      order by e.at desc limit 1)
      union all
      (select e.at, format('all tasks were paused, and %s resumed them at %%s', e.role)
      from (select a.* from pgrab.event a where a.at > t.fire_at order by a.at desc limit 200) e
      where e.what = 'resume_all' limit 1)
      union all
      select t.last_finished_at, 'its run before ended at %s'
      union all
      (select n.started_at, format('of the nodes that run it, %s has been up for longest, since %%s', n.name)
      from pgrab.node n where n.name = any (pgrab_internal.able(t))
      order by n.started_at limit 1)) x
    where x.until > t.fire_at order by x.until desc limit 1));
end $$;
comment on function pgrab_internal.misfire_why is 'Why a fire was missed, for the history.';

-- The task has been due for longer than misfire_after.  It keeps its place in the queue (due_at): having
-- waited long must not send it to the end.  A run_at that was given while it ran, although it could not begin
-- after all, is its next fire still.
create or replace function pgrab_internal.misfire_one(t pgrab_internal.task, p_now timestamptz)
returns pgrab_internal.move
language plpgsql as $$
declare
  c_walks constant boolean := t.schedule is not null and pgrab_internal.schedule_kind(t.schedule) <> 'after';
  c_keep constant integer := case t.misfire when 'once' then 1 when 'all' then t.misfire_limit else 0 end;
  c_gives_up constant boolean := c_keep = 0 and (c_walks or t.misfire = 'skip');
  c_until constant timestamptz :=
    least(case when t.misfire = 'skip' then p_now - t.misfire_after else p_now end, t.ends_at);
  c_keeps constant timestamptz := case when c_walks then pgrab_internal.nth_last_fire_on(t.schedule,
    t.timezone, t.fire_at, c_until, greatest(c_keep, 1), t.calendar, t.on_closed) end; -- null: all, or none
  v_why text;
begin
  if c_keeps is not null or c_gives_up then
    v_why := pgrab_internal.misfire_why(t);
    perform pgrab_internal.missed(t, t.fire_at, v_why);
  end if;
  if c_keeps is not null then
    perform pgrab_internal.note_fires(t, c_keeps, 'missed', v_why);
    t.fire_at := c_keeps;
  end if;
  if c_gives_up then
    perform pgrab_internal.give_up_fire(t, 'missed', 'skip', v_why);
    return null;
  end if;
  return pgrab_internal.move_to(t.id, t.version, 'settle', p_due_at => t.due_at, p_fire_at => t.fire_at,
    p_run_at => greatest(t.fire_at, t.run_at), p_settled => true);
end $$;
comment on function pgrab_internal.misfire_one is
  'Records the fires that one task has missed, as its misfire says. Returns the move with which the others '
  'are run; null: none is.';

-- Serves: the loader, for tasks that have been due for longer than misfire_after, and those that a blackout
-- keeps from running.  Returns how many tasks it settled.  p_ids must be sorted, because rows are locked in
-- that order.  Other tasks wait for the loader meanwhile, so what is not done in time is left to its next
-- look.
create or replace function pgrab_internal.misfire(p_ids bigint[], p_versions bigint[]) returns bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  t pgrab_internal.task;
  v_now constant timestamptz := clock_timestamp();
  c_time constant interval := '100 ms';
  v_settled bigint := pgrab_internal.put_off(p_ids, p_versions);
  v_move pgrab_internal.move;
  v_moves pgrab_internal.move[] := '{}';
begin
  for t in
    select x.*
    from unnest(p_ids, p_versions) c(id, version) cross join lateral (
      select k.* from pgrab.task k
      where k.id = any (array[c.id]) and k.version = c.version and k.status = 'scheduled' and k.attempt = 0
        and not k.settled and k.due_at < v_now - k.misfire_after
        and (k.schedule is not null or k.misfire = 'skip')
      for update skip locked) x
  loop
    v_move := pgrab_internal.misfire_one(t, v_now);
    v_moves := case when v_move.id is null then v_moves else v_moves || v_move end;
    v_settled := v_settled + 1;
    exit when clock_timestamp() > v_now + c_time;
  end loop;
  perform pgrab_internal.move(v_moves);
  return v_settled;
end $$;
comment on function pgrab_internal.misfire is
  'Settles fires that a blackout holds or skips, and those that could not start within misfire_after, as '
  'misfire says: skip records them as missed; once runs the latest; all runs them, at most the latest '
  'misfire_limit.';
