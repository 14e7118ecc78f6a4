-- Backfills: the fires that a schedule would have had in a time that has passed, as a batch of tasks that run
-- once.  Each has the past fire as its fire_at, so what it runs is told that time and not the present one.
-- Nothing of the schedule itself changes.

create or replace function pgrab_internal.backfill_refuse(t pgrab_internal.task, p_why text, p_hint text)
returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023', schema = 'pgrab', table = 'task', hint = p_hint,
    message = format('task %s (%s) cannot be backfilled: %s', t.id,
      pgrab_internal.called(t.id, t.name, t.key), p_why);
end $$;
comment on function pgrab_internal.backfill_refuse is 'Refuses a backfill.';

-- What is still to come is left to the schedule.  p_overlap: only what lies in the future is.
create or replace function pgrab_internal.backfill_fires(
  t pgrab_internal.task, p_from timestamptz, p_until timestamptz, p_overlap boolean) returns timestamptz[]
language plpgsql stable as $$
declare
  c_most constant integer := 100000;
  c_from constant timestamptz := greatest(p_from, t.starts_at);
  c_until constant timestamptz := least(p_until, t.ends_at + interval '1 us', clock_timestamp(),
    case when not p_overlap then t.fire_at end);
  c_step constant numeric := case when pgrab_internal.schedule_kind(t.schedule) = 'every'
    then extract(epoch from pgrab.next_fire(t.schedule, t.timezone, t.fire_at) - t.fire_at) end;
  -- a time that is no fire, or one before c_from; @every is counted from its planned fire, backwards and
  -- forwards
  c_after constant timestamptz := case when c_step is null then c_from - interval '1 us' else t.fire_at
    - c_step * (ceil(extract(epoch from t.fire_at - c_from) / c_step)::float8 + 1) * interval '1 s' end;
  v_fires constant timestamptz[] := array(
    select f from pgrab_internal.fires_on(t.schedule, t.timezone, c_after, c_until - interval '1 us',
      t.calendar, t.on_closed) f
    where f >= c_from limit c_most + 1);
begin
  if cardinality(v_fires) > c_most then
    perform pgrab_internal.backfill_refuse(t, format('there are more than %s fires', c_most),
      'Take a shorter time.');
  elsif v_fires = '{}' then
    perform pgrab_internal.backfill_refuse(t, format('it has no fire from %s until %s', c_from, c_until),
      format('%s carries out its fires from %s on itself; those of the time before %s are for a backfill.',
        pgrab_internal.called(t.id, t.name, t.key), t.fire_at, c_until));
  end if;
  return v_fires;
end $$;
comment on function pgrab_internal.backfill_fires is
  'The fires of a schedule with p_from <= fire < p_until that a backfill makes up for.';

create or replace function pgrab_internal.backfill(p_ids bigint[], p_wish jsonb, p_by text) returns jsonb
language plpgsql as $$
declare
  c_known constant text[] := '{from,until,max_running,overlap,dry_run}';
  t pgrab_internal.task;
  v_from timestamptz;
  v_until timestamptz;
  v_fires timestamptz[];
  v_batch bigint;
  v_key text;
  l pgrab_internal.limit;
  u pgrab_internal.limit_use;
  v_answer jsonb;
begin
  if jsonb_typeof(p_wish) <> 'object' or p_wish - c_known <> '{}' then
    raise exception using errcode = '22023', message = 'a backfill cannot be ' || left(p_wish::text, 200),
      hint = format('A JSON object of: %s.', array_to_string(c_known, ', '));
  elsif cardinality(p_ids) <> 1 then
    raise exception using errcode = '22023', message = format('cannot backfill %s tasks', cardinality(p_ids)),
      hint = 'One schedule at a time.';
  end if;
  select * into t from pgrab_internal.control_lock(p_ids, 'backfill', p_by);
  v_from := p_wish ->> 'from';
  v_until := p_wish ->> 'until';
  if t.schedule is null then
    perform pgrab_internal.backfill_refuse(t, 'it has no schedule',
      'Only the fires of a schedule can be made up for.');
  elsif pgrab_internal.schedule_kind(t.schedule) = 'after' then
    perform pgrab_internal.backfill_refuse(t, format('the fires of %s depend on when runs end',
      pgrab_internal.schedule_quote(t.schedule)), 'It has no fires in a time in which it did not run.');
  elsif t.chain is not null then
    perform pgrab_internal.backfill_refuse(t, 'it is the root of a chain',
      'A backfill is for single tasks. Insert the chain once for each fire, with that run_at.');
  elsif v_from is null or v_until is null or not isfinite(v_from) or not v_from < v_until then
    perform pgrab_internal.backfill_refuse(t, format('there is nothing from %s until %s',
      coalesce(v_from::text, 'null'), coalesce(v_until::text, 'null')), 'Give two times, the earlier first.');
  elsif (p_wish ->> 'max_running')::integer is not null and t.limit_key is not null then
    perform pgrab_internal.backfill_refuse(t, format('it is under limit %s, and a task has one limit',
      t.limit_key), 'With max_running => null the backfill is under that limit, too: in it, earlier fires go '
      'first.');
  end if;
  v_fires := pgrab_internal.backfill_fires(t, v_from, v_until, (p_wish ->> 'overlap')::boolean);
  if not (p_wish ->> 'dry_run')::boolean then
    v_batch := pgrab_tool.add(jsonb_build_object('owner', t.owner, 'kind', 'batch',
      'name', left('backfill of ' || pgrab_internal.called(t.id, t.name, t.key), 250),
      'args', jsonb_strip_nulls(jsonb_build_object('max_running', p_wish -> 'max_running'))));
    perform pgrab_tool.add(
      pgrab_internal.definition_whole(t) - array['key', 'schedule', 'timezone', 'starts_at', 'ends_at',
          'max_runs', 'jitter', 'misfire', 'misfire_after', 'misfire_limit', 'expect_within', 'source',
          'calendar', 'on_closed']
        || jsonb_build_object('owner', t.owner, 'batch', v_batch),
      (select jsonb_agg(jsonb_build_object('run_at', f) order by f) from unnest(v_fires) f));
    -- Under max_running they wait in line from the start, and so run in the order of their fires; the lock is
    -- on a limit that nobody else has yet.  Others are due since now: a fire of last year must not go before
    -- everything else.
    v_key := pgrab_internal.batch_limit(v_batch);
    perform pgrab_internal.move(array_agg(pgrab_internal.move_to(m.id, m.version,
      case when m.limit_key = v_key then 'queue' else 'replan' end,
      p_due_at => case when m.limit_key = v_key then null else clock_timestamp() end,
      p_line => case when m.limit_key = v_key then v_key end) order by m.id))
    from pgrab.task m where m.batch = v_batch and m.due_at is not null;
    select x.* into l from pgrab.limit x where x.key = v_key;
    if found then
      u := pgrab_internal.limit_lock(v_key);
      perform pgrab_internal.limit_note(u, pgrab_internal.limit_wake(l, u));
    end if;
    perform pgrab_internal.seal(array[v_batch], t.owner);
  end if;
  v_answer := jsonb_build_object('batch', v_batch, 'fires', cardinality(v_fires),
    'first_fire', v_fires[1], 'last_fire', v_fires[cardinality(v_fires)]);
  if v_batch is not null then
    perform pgrab_internal.event('backfill', p_by, t, v_answer);
  end if;
  return v_answer;
end $$;
comment on function pgrab_internal.backfill is 'pgrab.backfill() for a caller.';

create or replace function pgrab_tool.on_backfill(p_ids bigint[], p_wish jsonb)
returns table (batch bigint, fires bigint, first_fire timestamptz, last_fire timestamptz)
language sql
begin atomic
  select x.*
  from pgrab_tool.call('backfill', p_ids => p_ids, p_file => p_wish) c cross join jsonb_to_record(c.file) x(
    batch bigint, fires bigint, first_fire timestamptz, last_fire timestamptz);
end;
comment on function pgrab_tool.on_backfill is 'pgrab.backfill() for a task by its id.';

create or replace function pgrab.backfill(task anycompatible, "from" timestamptz, until timestamptz,
  max_running integer default 1, overlap boolean default false, dry_run boolean default false)
returns table (batch bigint, fires bigint, first_fire timestamptz, last_fire timestamptz)
language sql as $$
  select b.* from pgrab_tool.on_backfill(pgrab_tool.ids_of($1), jsonb_build_object('from', $2, 'until', $3,
    'max_running', $4, 'overlap', coalesce($5, false), 'dry_run', coalesce($6, false))) b
$$;
comment on function pgrab.backfill(anycompatible, timestamptz, timestamptz, integer, boolean, boolean) is
  'Makes up for the fires of a schedule with from <= fire < until: a batch of one task for each, with that '
  'fire as its fire_at, of which max_running run at once. The schedule goes on as before: what it has yet to '
  'carry out itself is left to it, unless overlap is true (for one that is paused). max_running null: no '
  'bound, or the limit of the task. dry_run: inserts nothing, and says what it would insert. Returns the '
  'batch, which is watched, paused, retried and cancelled like any other.';
