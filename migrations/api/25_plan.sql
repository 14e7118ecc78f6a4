-- Planning: when a task fires first, what became of fires that nobody ran, and what history says of a fire without a run.
--
-- A fire has a planned time (fire_at) and a time at which nodes look at it (due_at): the planned one plus the task's jitter; later while a retry waits.
-- Re-arming counts from the planned time, not from now, so that no fire is forgotten: one that lies in the past is due at once, and one that has been due
-- for longer than misfire_after is missed (pgrab.misfire). That rule is in one place: whoever pauses, drains or loses nodes, or runs too long, ends up there.

create or replace function pgrab.jitter_of(p_id bigint, p_jitter interval) returns interval
language sql immutable strict parallel safe
return p_jitter * ((hashint8extended(p_id, 1) & 1048575) / 1048576.0);
comment on function pgrab.jitter_of(bigint, interval) is 'By how much the fires of a task are delayed: a pseudo-random part of its jitter, the same for each of its fires.';

create or replace function pgrab.first_fire(t pgrab.task) returns timestamptz
language sql stable as $$
  select case
  when t.starts_at <= now() or t.starts_at is null then pgrab.next_fire(t.schedule, t.timezone, now())
  when pgrab.schedule_kind(t.schedule) = 'cron' then pgrab.next_fire(t.schedule, t.timezone, t.starts_at - interval '1 us')
  else t.starts_at end
$$;
comment on function pgrab.first_fire(pgrab.task) is 'First fire of a schedule from now on, not before its starts_at. @every and @after fire first at starts_at, or one interval from now.';

-- What the next fire is counted from: the planned time, for @after the end of the run; and not before starts_at (a person may have made it run before that).
create or replace function pgrab.fire_after(t pgrab.task, p_ended timestamptz) returns timestamptz
language sql stable as $$
  select case when t.starts_at > f.base then t.starts_at - case when f.kind = 'cron' then interval '1 us' else make_interval(secs => (pgrab.schedule_compile(t.schedule))[2]) end else f.base end
  from (select k.kind, case k.kind when 'after' then p_ended else t.fire_at end as base from (select case when t.schedule like '%@%' then pgrab.schedule_kind(t.schedule) else 'cron' end as kind) k) f
$$;
comment on function pgrab.fire_after(pgrab.task, timestamptz) is 'Internal: the moment after which the next fire of a schedule is looked for.';

-- One row of history for a fire that was not run. p_ended: the task leaves pgrab.task with it.
create or replace function pgrab.note_fire(t pgrab.task, p_fire timestamptz, p_outcome text, p_why text, p_ended text default null) returns void
language sql as $$
  insert into pgrab.run (task_id, attempt, version, chain_id, fire_at, finished_at, created_at, outcome, ended, kind, owner, name, error, definition)
  values (t.id, t.attempt, t.version, (select c.run from pgrab.chain c where c.id = t.chain), p_fire, clock_timestamp(), t.created_at, p_outcome, p_ended, t.kind, t.owner, t.name, p_why, case when p_ended is not null then pgrab.definition(t) end)
$$;
comment on function pgrab.note_fire(pgrab.task, timestamptz, text, text, text) is 'Internal: writes the history of a fire that was not run.';

-- Gives up the planned fire of a task that is not running: recorded, and planned anew, or gone when nothing is left to fire. Returns the row as it is then. The caller holds its lock.
create or replace function pgrab.give_up_fire(t pgrab.task, p_outcome text, p_ended text, p_why text) returns pgrab.task
language plpgsql as $$
declare
  v_tried constant integer := case when t.attempt > 0 then 1 else 0 end; -- between two attempts: the fire counts
  v_next timestamptz := case when t.status <> 'parked' and t.schedule is not null and (t.fires + v_tried < t.max_runs or t.max_runs is null) then
    pgrab.next_fire(t.schedule, t.timezone, pgrab.fire_after(t, clock_timestamp())) end;
begin
  if t.chain is not null and (v_next is null or v_next > t.ends_at or t.attempt > 0) then
    return pgrab.link_end(t, p_outcome, p_ended, p_why);
  end if;
  if v_next is null or v_next > t.ends_at then
    perform pgrab.note_fire(t, t.fire_at, p_outcome, p_why, p_ended);
    delete from pgrab.task x where x.id = t.id;
    t.status := p_ended;
    t.due_at := null;
    t.node_id := null;
    t.incarnation := null;
    return t;
  end if;
  perform pgrab.note_fire(t, t.fire_at, p_outcome, p_why);
  update pgrab.task x
  set status = 'scheduled', fire_at = v_next, run_at = v_next, due_at = case when not x.paused then v_next + pgrab.jitter_of(x.id, x.jitter) end, attempt = 0, fires = x.fires + v_tried,
    version = x.version + 1, node_id = null, incarnation = null, claimed_at = null
  where x.id = t.id returning x.* into t;
  -- The fire that was given up has been a run of its chain, in which nothing ran.
  update pgrab.chain c set run = nextval('pgrab.chain_run_seq') where c.id = t.chain;
  return t;
end $$;
comment on function pgrab.give_up_fire(pgrab.task, text, text, text) is 'Internal: records that the planned fire will not be run, and plans the next one.';

-- What becomes of fires that nobody could run in time. The loader calls it for tasks that have been due for longer than misfire_after; it settles at most a thousand
-- fires of a task at once and leaves the rest, still overdue, to the next look, so that a schedule of seconds after a long outage holds nobody up.
create or replace function pgrab.misfire(p_ids bigint[], p_versions bigint[]) returns bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_step constant integer := 1000;
  t pgrab.task;
  v_now timestamptz := clock_timestamp();
  v_fires timestamptz[];
  v_keep integer;
  v_drop integer;
  v_next timestamptz;
  v_settled bigint := 0;
begin
  for t in
    select x.* from unnest(p_ids, p_versions) c(id, version) join pgrab.task x on x.id = any (array[c.id]) and x.version = c.version
    where x.status = 'scheduled' and x.attempt = 0 and x.due_at < v_now - x.misfire_after and (x.schedule is not null or x.misfire = 'skip')
    order by x.id for update of x skip locked
  loop
    v_settled := v_settled + 1;
    if t.schedule is null or pgrab.schedule_kind(t.schedule) = 'after' then
      if t.misfire = 'skip' then
        perform pgrab.give_up_fire(t, 'missed', 'skipped', 'nobody could run it within misfire_after');
      else
        update pgrab.task x set due_at = v_now, version = x.version + 1 where x.id = t.id;
      end if;
      continue;
    end if;
    -- The fires up to now, oldest first, as many as are needed to decide.
    v_keep := case t.misfire when 'once' then 1 when 'all' then t.misfire_limit else 0 end;
    v_fires := t.fire_at || array(
      select f from pgrab.fires(t.schedule, t.timezone, t.fire_at, least(case when t.misfire = 'skip' then v_now - t.misfire_after else v_now end, t.ends_at)) f limit v_keep + c_step);
    v_drop := least(cardinality(v_fires) - v_keep, c_step);
    if v_drop <= 0 then
      update pgrab.task x set due_at = v_now, version = x.version + 1 where x.id = t.id; -- a catch-up run, due at once
      continue;
    end if;
    insert into pgrab.run (task_id, attempt, version, fire_at, finished_at, created_at, outcome, kind, owner, name, error)
    select t.id, 0, t.version, f, v_now, t.created_at, 'missed', t.kind, t.owner, t.name, 'nobody could run it within misfire_after'
    from unnest(v_fires[1 : least(v_drop, cardinality(v_fires) - 1)]) f;
    if v_drop < cardinality(v_fires) then
      -- Still overdue while more is to be settled; else the catch-up run.
      update pgrab.task x
      set fire_at = v_fires[v_drop + 1], run_at = v_fires[v_drop + 1], due_at = case when cardinality(v_fires) - v_drop > v_keep then x.due_at else v_now end, version = x.version + 1
      where x.id = t.id;
    else
      t.fire_at := v_fires[v_drop];
      perform pgrab.give_up_fire(t, 'missed', 'done', 'nobody could run it within misfire_after');
    end if;
  end loop;
  return v_settled;
end $$;
comment on function pgrab.misfire(bigint[], bigint[]) is 'Internal: settles fires that could not start within misfire_after, as misfire says: skip records them as missed; once runs the latest; all runs them, at most the latest misfire_limit. Returns how many tasks it changed.';
