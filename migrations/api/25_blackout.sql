-- Blackouts: windows in which no task is started.  See docs/adr/0036-blackouts.md.
--
--   look            finds a due task that a window keeps from running (shut()), and does not claim it
--   misfire()       puts it off to the end of the window, or gives up its fire
--   claim, start    do not start what a window keeps from running; their node hands it back to the look
--   blackouts_tick  lets go what a window held that was deleted, or ends sooner
--
-- Nothing of this is asked while there is no window that has begun.

-- ----------------------------------------------------------------------------------------------- the window

-- As PostgreSQL counts in that zone: days by the clock on the wall, hours by elapsed time.
create or replace function pgrab_internal.blackout_end(p_begin timestamptz, p_lasts interval, p_timezone text)
returns timestamptz
language sql stable
return case when date_trunc('day', p_lasts) = '0' then p_begin
  else timezone(p_timezone, timezone(p_timezone, p_begin) + date_trunc('day', p_lasts)) end
  + (p_lasts - date_trunc('day', p_lasts));
comment on function pgrab_internal.blackout_end is 'The end of a window that begins then.';

-- Windows that follow each other without a gap are one; of a thousand and more it is so many of them.
-- goes_on: another one follows, which the next look finds when this one is over.
create or replace function pgrab_internal.blackout_span(b pgrab_internal.blackout, p_at timestamptz,
  out begins_at timestamptz, out ends_at timestamptz, out goes_on boolean)
language plpgsql stable as $$
declare
  c_most constant integer := 1000;
  c_cron constant bigint[] := case when b.schedule is not null
    then pgrab_internal.schedule_compile(b.schedule) end;
  -- the longest that a window takes, a window that touches the next one included
  c_longest constant interval := b.lasts + '1 s'
    + case when b.lasts >= '1 day' then interval '1 day' else '0' end;
  v_next timestamptz;
  v_n integer := 0;
begin
  if b.during is not null then
    begins_at := case when upper(b.during) > p_at then lower(b.during) end;
    ends_at := case when upper(b.during) > p_at then upper(b.during) end;
    return;
  end if;
  begins_at := pgrab_internal.next_fire_compiled(c_cron, b.timezone, p_at - c_longest);
  while pgrab_internal.blackout_end(begins_at, b.lasts, b.timezone) <= p_at loop
    begins_at := pgrab_internal.next_fire_compiled(c_cron, b.timezone, begins_at);
  end loop;
  v_next := begins_at;
  ends_at := begins_at;
  while v_next <= ends_at and v_n < c_most loop
    ends_at := greatest(ends_at, pgrab_internal.blackout_end(v_next, b.lasts, b.timezone));
    v_next := pgrab_internal.next_fire_compiled(c_cron, b.timezone, v_next);
    v_n := v_n + 1;
  end loop;
  goes_on := v_next <= ends_at;
  while begins_at is not null and v_n < c_most loop
    v_next := begins_at - c_longest;
    loop
      v_next := pgrab_internal.next_fire_compiled(c_cron, b.timezone, v_next);
      v_n := v_n + 1;
      exit when v_next >= begins_at or pgrab_internal.blackout_end(v_next, b.lasts, b.timezone) >= begins_at;
    end loop;
    exit when v_next >= begins_at;
    begins_at := v_next;
  end loop;
end $$;
comment on function pgrab_internal.blackout_span is
  'The window that is on at an instant, or the next one. Null: none is left.';

-- What is noted in the row is enough for now; in other times it is looked up.
create or replace function pgrab_internal.blackout_at(
  b pgrab_internal.blackout, p_at timestamptz, out begins_at timestamptz, out ends_at timestamptz)
language plpgsql stable as $$
begin
  if p_at < b.ends_at and (p_at >= b.begins_at or p_at >= statement_timestamp()) then
    begins_at := b.begins_at;
    ends_at := b.ends_at;
  elsif b.begins_at is not null or p_at < statement_timestamp() then
    select s.begins_at, s.ends_at into begins_at, ends_at from pgrab_internal.blackout_span(b, p_at) s;
  end if;
end $$;
comment on function pgrab_internal.blackout_at is
  'The window that is on at an instant, or the next one: blackout_span(), quickly.';

-- Asked once for each role and statement.  Asked for each window and each task, it would let one role with a
-- hundred windows hold up everybody's tasks.
create or replace function pgrab_internal.blackout_setters() returns text[]
language plpgsql stable as $$
begin
  return array(
    select s.set_by from (select distinct b.set_by from pgrab.blackout b) s
    where pgrab_internal.may_operate(s.set_by));
end $$;
comment on function pgrab_internal.blackout_setters is 'Whose windows are for everybody''s tasks.';

create or replace function pgrab_internal.blackout_matches(b pgrab_internal.blackout, p_name text,
  p_key text, p_source text, p_owner text, p_setters text[])
returns boolean
language sql stable
return coalesce(coalesce(p_name, p_key) like b.task_like, b.task_like is null)
  and coalesce(b.source = p_source, true) and coalesce(b.owner = p_owner, true)
  and (b.set_by = p_owner or b.set_by = any (p_setters));
comment on function pgrab_internal.blackout_matches is
  'Is a window for this task? p_setters: see blackout_setters().';

-- Serves: open_now.inc.  Its statements compare each task with a list that is made once.
create or replace function pgrab_internal.blackout_patterns() returns text[]
language plpgsql stable as $$
declare
  c_setters constant text[] := pgrab_internal.blackout_setters();
begin
  return array(
    select case when b.set_by = any (c_setters) then '%'
        else regexp_replace(b.set_by, E'([\\\\%_])', E'\\\\\\1', 'g') end
      || E'\x01' || coalesce(b.task_like, '%')
    from pgrab.blackout b where b.begins_at <= clock_timestamp());
end $$;
comment on function pgrab_internal.blackout_patterns is
  'Of whose tasks, and of which names, the windows may be that are on.';

-- Serves: look, claim, start, limit_start.
create or replace function pgrab_internal.shut(
  p_name text, p_key text, p_source text, p_owner text, p_at timestamptz, p_setters text[])
returns boolean
language plpgsql stable as $$
begin
  return exists (
    select from pgrab.blackout b
    where b.begins_at <= p_at
      and (pgrab_internal.blackout_at(row(b.*)::pgrab_internal.blackout, p_at)).begins_at <= p_at
      and pgrab_internal.blackout_matches(
        row(b.*)::pgrab_internal.blackout, p_name, p_key, p_source, p_owner, p_setters));
end $$;
comment on function pgrab_internal.shut is 'Does a window keep this task from being started now?';

create type pgrab_internal.closure as (
  name text, action text, note text, begins_at timestamptz, ends_at timestamptz, edition bigint);
comment on type pgrab_internal.closure is 'A window that keeps a task from running, from when until when.';

-- A fire that has begun, and may have done half of its work, is not skipped.
create or replace function pgrab_internal.closed_by(t pgrab_internal.task, p_at timestamptz)
returns pgrab_internal.closure
language sql stable as $$
  select w.name, w.action, w.note, w.begins_at, w.ends_at, w.edition
  from (
    select b.name, b.note, b.edition, s.begins_at, s.ends_at,
      case when pgrab_internal.has_begun(t.attempt, t.steps) then 'hold' else b.action end as action
    from pgrab.blackout b
      cross join lateral pgrab_internal.blackout_at(row(b.*)::pgrab_internal.blackout, p_at) s
    where s.begins_at <= p_at and pgrab_internal.blackout_matches(row(b.*)::pgrab_internal.blackout,
      t.name, t.key, t.source, t.owner, (select pgrab_internal.blackout_setters()))) w
  order by w.action desc, w.ends_at desc, w.name limit 1
$$;
comment on function pgrab_internal.closed_by is
  'The window that keeps a task from running at an instant. Of several one that skips; otherwise the one '
  'that ends last. Null: none.';

create or replace function pgrab_internal.open_until(t pgrab_internal.task, p_at timestamptz)
returns timestamptz
language sql stable as $$
  select coalesce(min(s.begins_at), 'infinity')
  from pgrab.blackout b
    cross join lateral pgrab_internal.blackout_at(row(b.*)::pgrab_internal.blackout, p_at) s
  where pgrab_internal.blackout_matches(row(b.*)::pgrab_internal.blackout,
    t.name, t.key, t.source, t.owner, (select pgrab_internal.blackout_setters()))
$$;
comment on function pgrab_internal.open_until is
  'When the next window begins for a task that may run now. Infinity: none.';

create or replace function pgrab_internal.closure_why(w pgrab_internal.closure) returns text
language sql immutable
return format('blackout %s', w.name) || coalesce(': ' || w.note, '');
comment on function pgrab_internal.closure_why is 'Why a fire was not run, for the history.';

-- -------------------------------------------------------------------------------------------- hold and skip

-- The first comes a tenth of a second behind the end, and then twice as many in each 42 seconds: ten are let
-- go within a second, a thousand within a minute, a million within eight.  So it is not known beforehand how
-- many there will be, and still they come in order, at a pace that begins slowly.  p_last: when the last of
-- those is due that came before.
create or replace function pgrab_internal.put_off_due(p_end timestamptz, p_last timestamptz, p_n bigint)
returns timestamptz
language sql immutable
return p_end + interval '60 s' * ln(
  exp(coalesce(extract(epoch from p_last - p_end), 0)::double precision / 60)
    + p_n / 600.0::double precision);
comment on function pgrab_internal.put_off_due is
  'When the next but n is due of the tasks that a window has held.';

-- All of them up to the end of the window at once; what is due behind it is planned.
create or replace function pgrab_internal.give_up_window(t pgrab_internal.task, w pgrab_internal.closure)
returns void
language plpgsql as $$
declare
  c_why constant text := pgrab_internal.closure_why(w)
    || case when w.action = 'hold' then '; the run at its end stands for it' else '' end;
  v_last timestamptz;
begin
  if t.schedule is not null and pgrab_internal.schedule_kind(t.schedule) <> 'after' then
    v_last := pgrab_internal.nth_last_fire_on(t.schedule, t.timezone, t.fire_at,
      least(w.ends_at - interval '1 us', t.ends_at, clock_timestamp()), 1, t.calendar, t.on_closed);
  end if;
  if v_last > t.fire_at then
    perform pgrab_internal.note_fires(t, v_last, 'skipped', c_why);
    t.fire_at := v_last;
  end if;
  perform pgrab_internal.give_up_fire(t, 'skipped', 'skip', c_why);
end $$;
comment on function pgrab_internal.give_up_window is 'Skips the fires of a task that fell into a window.';

-- Part of misfire(): for tasks that the look has found shut, or due for longer than misfire_after.  Those
-- that are held come together, in one order.  Returns how many tasks it saw to.
create or replace function pgrab_internal.put_off(p_ids bigint[], p_versions bigint[]) returns bigint
language plpgsql as $$
declare
  t pgrab_internal.task;
  w pgrab_internal.closure;
  v_windows pgrab_internal.closure[] := '{}';
  v_held bigint[] := '{}';
  v_dues timestamptz[] := '{}';
  v_ids bigint[];
  v_ended bigint := 0;
  v_until constant timestamptz := clock_timestamp() + interval '200 ms';
begin
  if not exists (select from pgrab.blackout) then
    return 0;
  end if;
  for t in
    select x.*
    from unnest(p_ids, p_versions) c(id, version) cross join lateral (
      select k.* from pgrab.task k
      where k.id = any (array[c.id]) and k.version = c.version and k.status = 'scheduled'
        and k.due_at <= clock_timestamp()
      for update skip locked) x
  loop
    w := pgrab_internal.closed_by(t, clock_timestamp());
    if w.action = 'hold' then
      v_windows := v_windows || w;
      v_held := v_held || t.id;
      v_dues := v_dues || t.due_at;
    elsif w.action = 'skip' then
      perform pgrab_internal.give_up_window(t, w);
      v_ended := v_ended + 1;
    elsif not t.settled and not pgrab_internal.has_begun(t.attempt, t.steps) then
      -- A fire that no node has looked at while the window was on was held or skipped all the same; how late
      -- it is counts from the end of the window.
      w := pgrab_internal.closed_by(t, t.due_at);
      v_ended := v_ended + (w.name is not null)::integer;
      if w.action = 'skip' or t.misfire <> 'all' and t.last_finished_at >= w.ends_at
        and t.last_outcome not in ('missed', 'skipped') then -- or a run behind it stood for what it held
        perform pgrab_internal.give_up_window(t, w);
      elsif w.name is not null then
        perform pgrab_internal.move(array[
          pgrab_internal.move_to(t.id, t.version, 'put_off', p_due_at => w.ends_at)]);
      end if;
    end if;
    exit when clock_timestamp() > v_until;
  end loop;
  for w in select distinct x.* from unnest(v_windows) x loop
    v_ids := array(
      select h.id from unnest(v_held, v_dues) with ordinality h(id, due_at, n)
      where v_windows[h.n] = w order by h.due_at, h.id);
    -- what other nodes put off meanwhile is not seen, and comes at the same times
    insert into pgrab_internal.put_off (task_id, edition, until)
    select i.id, w.edition, pgrab_internal.put_off_due(w.ends_at, l.last, i.n)
    from unnest(v_ids) with ordinality i(id, n) cross join (
      select max(p.until) as last from pgrab_internal.put_off p
      where p.edition = w.edition and p.until >= w.ends_at) l
    on conflict (task_id) do update set edition = excluded.edition, until = excluded.until;
    perform pgrab_internal.move(array_agg(
      pgrab_internal.move_to(x.id, x.version, 'put_off', p_due_at => p.until)))
    from unnest(v_ids) i(id) join pgrab.task x on x.id = any (array[i.id])
      join pgrab_internal.put_off p on p.task_id = any (array[i.id]);
    perform pgrab_internal.limit_pass(v_ids);
  end loop;
  return v_ended + cardinality(v_held);
end $$;
comment on function pgrab_internal.put_off is
  'Holds or skips the fires of tasks that a window keeps from running.';

create or replace function pgrab_internal.is_put_off(t pgrab_internal.task) returns boolean
language sql stable as $$
  select t.due_at > clock_timestamp() and exists (
    select from pgrab_internal.put_off p where p.task_id = t.id and p.until = t.due_at)
$$;
comment on function pgrab_internal.is_put_off is 'Does a window hold this task?';

-- ------------------------------------------------------------------------------------------------- the edit

create or replace function pgrab_internal.blackout_refuse(
  b pgrab_internal.blackout, p_column text, p_hint text)
returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023', schema = 'pgrab', table = 'blackout', column = p_column,
    message = format('blackout %s cannot be %s', p_column,
      coalesce(quote_literal(left(to_jsonb(b) ->> p_column, 200)), 'null')),
    hint = p_hint;
end $$;
comment on function pgrab_internal.blackout_refuse is 'Refuses a window.';

create or replace function pgrab_internal.blackout_check(b pgrab_internal.blackout) returns void
language plpgsql as $$
declare
  c_most constant integer := 100;
  v_column text := case
    when b.during is null and b.schedule is null or b.during is not null and b.schedule is not null
      then 'during'
    when b.during is not null and (isempty(b.during) or coalesce(not (lower(b.during) > '-infinity'
      and upper(b.during) < '10000-01-01 UTC'), true)) then 'during'
    when b.schedule is not null
      and not coalesce(pgrab_internal.is_span(b.lasts, '1 us', '365 days'), false) then 'lasts'
    when b.schedule is null and b.lasts is not null then 'lasts' end;
begin
  perform pgrab_internal.like_check('blackout ' || quote_literal(b.name), b.task_like);
  if v_column is not null then
    perform pgrab_internal.blackout_refuse(b, v_column, case v_column
      when 'during' then 'A window has either a beginning and an end, as in '
        'tstzrange(now(), now() + ''2 h''), before the year 10000, or a schedule and lasts. For one '
        'without an end there are pgrab.pause() and pgrab.pause_all().'
      else 'How long each window of the schedule lasts, for example 8 hours, and at most 365 days; '
        'without a schedule, during says it.' end);
  end if;
  perform pgrab_internal.schedule_check(b.schedule, b.timezone);
  if pgrab_internal.schedule_kind(b.schedule) <> 'cron' then
    perform pgrab_internal.blackout_refuse(b, 'schedule',
      'A window begins at times of the clock: five fields as in crontab(5), or @daily and the like.');
  elsif b.schedule is not null and (pgrab_internal.blackout_span(b, now())).goes_on then
    perform pgrab_internal.blackout_refuse(b, 'lasts',
      'The next window begins before this one ends, and so on: nothing would ever run.');
  elsif (select count(*) from pgrab.blackout x where x.set_by = b.set_by and x.name <> b.name) >= c_most then
    raise exception using errcode = '54000', schema = 'pgrab', table = 'blackout',
      message = format('blackout %s cannot be added: %s has %s already', quote_literal(b.name), b.set_by,
        c_most),
      hint = 'Delete some, or let one apply to more tasks.';
  end if;
end $$;
comment on function pgrab_internal.blackout_check is
  'Refuses a window that cannot be understood, or that would never end.';

-- An edit leaves held, and the edition as it is, what a window holds that has not begun, or ends no sooner.
create or replace function pgrab_internal.blackout_planned() returns trigger
language plpgsql as $$
declare
  c_written constant boolean := tg_op = 'INSERT' or (new.name, new.during, new.schedule, new.lasts,
      new.timezone, new.task_like, new.source, new.owner, new.action, new.note)
    is distinct from (old.name, old.during, old.schedule, old.lasts, old.timezone, old.task_like, old.source,
      old.owner, old.action, old.note);
begin
  new.name := coalesce(new.name, to_char(timezone('UTC', clock_timestamp()), 'YYYYMMDD-HH24MISS-MS'));
  if c_written then
    perform pgrab_internal.blackout_check(row(new.*)::pgrab_internal.blackout);
  end if;
  select s.begins_at, s.ends_at into new.begins_at, new.ends_at
  from pgrab_internal.blackout_span(row(new.*)::pgrab_internal.blackout, clock_timestamp()) s;
  new.edition := case when tg_op = 'UPDATE' and (not c_written
      or (old.task_like, old.source, old.owner, old.action)
        is not distinct from (new.task_like, new.source, new.owner, new.action)
        and (old.begins_at is null or old.begins_at > clock_timestamp()
          or new.ends_at >= old.ends_at and new.begins_at <= clock_timestamp())) then old.edition
    else nextval('pgrab_internal.blackout_edition_seq') end;
  return new;
end $$;
comment on function pgrab_internal.blackout_planned is 'Checks a window, and notes when it begins and ends.';
create trigger blackout_15_caller after insert or update or delete on pgrab.blackout
  for each row when (not pgrab_internal.in_call()) execute function pgrab_tool.note_caller();
create trigger blackout_10_planned before insert or update on pgrab.blackout
  for each row execute function pgrab_internal.blackout_planned();

create or replace function pgrab_internal.blackout_changed() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE' or tg_op = 'UPDATE' and new.edition <> old.edition then
    insert into pgrab_internal.let_go (edition) values (old.edition);
    perform pg_notify('pgrab', 'blackouts');
  end if;
  insert into pgrab.event (what, role, task, owner, detail)
  values ('blackout', pgrab_internal.caller(), coalesce(new.name, old.name), coalesce(new.set_by, old.set_by),
    jsonb_build_object(lower(tg_op), jsonb_strip_nulls(
      coalesce(to_jsonb(new), to_jsonb(old)) - '{name,set_by,edition,begins_at,ends_at}'::text[])));
  return null;
end $$;
comment on function pgrab_internal.blackout_changed is
  'Records a change to a window, and has let go what it does not hold any more.';
create trigger blackout_20_changed after insert or delete
  or update of name, during, schedule, lasts, timezone, task_like, source, owner, action, note
  on pgrab.blackout for each row execute function pgrab_internal.blackout_changed();

-- One that is on stays as a window that is over: how late tasks are counts from its end.
create or replace function pgrab_internal.blackout_delete(p_name text, p_all boolean, p_by text)
returns boolean
language plpgsql as $$
declare
  b pgrab_internal.blackout;
  c_now constant timestamptz := clock_timestamp();
  v_begin timestamptz;
begin
  select x.* into b from pgrab.blackout x
  where x.name = p_name and (p_all or x.set_by = p_by) for update;
  if b.name is null then
    return false;
  end if;
  v_begin := (pgrab_internal.blackout_span(b, c_now)).begins_at;
  if v_begin < c_now then
    update pgrab.blackout x set schedule = null, lasts = null, during = tstzrange(v_begin, c_now)
    where x.name = p_name;
  else
    delete from pgrab.blackout x where x.name = p_name;
  end if;
  return true;
end $$;
comment on function pgrab_internal.blackout_delete is 'pgrab.delete_blackout() for a caller.';

-- ------------------------------------------------------------------------------------------------- the tick

-- The next 200 in line; those that somebody has locked are left to the next round.
create or replace function pgrab_internal.let_go_slice(p_edition bigint) returns bigint
language plpgsql as $$
declare
  c_slice constant integer := 200;
  c_now constant timestamptz := clock_timestamp();
  v_at timestamptz;
  v_done bigint;
  v_next timestamptz;
  v_ids bigint[];
  v_dues timestamptz[];
  v_seen timestamptz;
  v_n integer;
begin
  select case when g.done = 0 then c_now else g.at end, g.done, g.next_at into v_at, v_done, v_next
  from pgrab_internal.let_go g where g.edition = p_edition;
  with line as materialized (
    select p.* from pgrab_internal.put_off p
    where p.edition = p_edition and (p.until > v_next or v_next is null)
    order by p.until limit c_slice),
  free as materialized (
    select l.*, t.due_at, t.status, row_number() over (order by l.until) as n
    from line l cross join lateral (
      select x.due_at, x.status from pgrab.task x where x.id = any (array[l.task_id])
      for update skip locked) t),
  over as (
    delete from pgrab_internal.put_off p using line l
    where p.task_id = any (array[l.task_id]) and p.edition = p_edition
      and (exists (select from free f where f.task_id = l.task_id)
        or not exists (select from pgrab.task t where t.id = any (array[l.task_id])))
    returning p.task_id)
  select count(*), max(l.until), array_agg(f.task_id order by f.n) filter (where f.goes),
    array_agg(greatest(c_now, pgrab_internal.put_off_due(v_at, null, v_done + f.n)) order by f.n)
      filter (where f.goes)
  into v_n, v_seen, v_ids, v_dues
  from line l left join (
    select x.*, x.status = 'scheduled' and x.due_at = x.until and x.until > c_now as goes
    from free x) f on f.task_id = l.task_id;
  begin
    perform pgrab_internal.wake(v_ids, v_dues) where v_ids is not null;
  exception when others then -- what is refused comes when the blackout would have ended
    if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
      raise;
    end if;
    perform pgrab_internal.wake(array[i.id], array[i.due_at], true)
    from unnest(v_ids, v_dues) i(id, due_at);
  end;
  update pgrab_internal.let_go g
  set at = v_at, done = v_done + coalesce(cardinality(v_ids), 0),
    next_at = case when v_n = c_slice then v_seen end
  where g.edition = p_edition;
  return v_n;
end $$;
comment on function pgrab_internal.let_go_slice is
  'Makes tasks due that a window does not hold any more, at the pace of put_off_due().';

-- Serves: tell.sql.
create or replace function pgrab_internal.blackouts_tick(out done bigint, out left_over boolean)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '200 ms';
  v_edition bigint;
  v_gone bigint;
begin
  done := 0;
  if (exists (select from pgrab.blackout) or exists (select from pgrab_internal.let_go))
    and pgrab_internal.duty_take('blackouts', '0') then
    -- windows that are over begin next; after a month it is no longer told apart how late a task was because
    -- of one
    update pgrab.blackout b set begins_at = b.begins_at
    where b.name in (
      select x.name from pgrab.blackout x where x.ends_at <= clock_timestamp() for update skip locked);
    delete from pgrab.blackout b
    where b.name in (
      select x.name from pgrab.blackout x where upper(x.during) < clock_timestamp() - interval '30 days'
      for update skip locked);
    for v_edition in select g.edition from pgrab_internal.let_go g order by g.edition loop
      loop
        done := done + pgrab_internal.let_go_slice(v_edition);
        exit when clock_timestamp() > c_until
          or (select g.next_at is null from pgrab_internal.let_go g where g.edition = v_edition);
      end loop;
      -- all has been let go, and the edit is so old that nobody is left who might hold something for it
      delete from pgrab_internal.let_go g
      where g.edition = v_edition and g.next_at is null and g.edit < pg_snapshot_xmin(pg_current_snapshot())
        and not exists (select from pgrab_internal.put_off p where p.edition = g.edition);
      exit when clock_timestamp() > c_until;
    end loop;
    -- what is due is not held any more
    delete from pgrab_internal.put_off p
    where p.task_id = any (array(
      select o.task_id from pgrab.blackout b cross join lateral (
        select x.task_id from pgrab_internal.put_off x
        where x.edition = b.edition and x.until < clock_timestamp() order by x.until limit 1000
        for update skip locked) o));
    get diagnostics v_gone = row_count;
    done := done + v_gone;
  end if;
  left_over := done > 0 or exists (select from pgrab_internal.let_go);
end $$;
comment on function pgrab_internal.blackouts_tick is
  'Lets go what windows held that were deleted or edited, for 200 ms. done: nothing, if 0; left_over: is '
  'there more to do, perhaps later?';

-- ----------------------------------------------------------------------------------------------- for users

-- A text, so that it has the rights of pgrab's owner: who reads the view has none on the table.
create or replace function pgrab_internal.put_off_count(p_edition bigint) returns bigint
language sql stable as $$
  select count(*) from (
    select from pgrab_internal.put_off p
    where p.edition = p_edition and p.until > clock_timestamp() limit 10000) x
$$;
comment on function pgrab_internal.put_off_count is 'How many tasks a window holds; it counts to 10000.';

create or replace view pgrab.blackouts as
select b.name, case when s.begins_at is null then 'over' when s.begins_at <= statement_timestamp() then 'on'
    else 'next' end as state,
  b.action, date_trunc('second', coalesce(s.begins_at, lower(b.during))) as begins_at,
  date_trunc('second', coalesce(s.ends_at, upper(b.during))) as ends_at,
  pgrab_internal.put_off_count(b.edition) as held,
  coalesce(nullif(concat_ws(', ', b.task_like, 'source ' || b.source, 'owner ' || b.owner), ''), 'all tasks')
    as tasks,
  case when b.schedule is not null then format('%s (%s) for %s', b.schedule, b.timezone, b.lasts) end
    as repeats, b.note, b.set_by
from pgrab.blackout b cross join lateral pgrab_internal.blackout_span(
  row(b.*)::pgrab_internal.blackout, statement_timestamp()) s;
comment on view pgrab.blackouts is 'Blackouts: windows in which no task is started, or none that matches.';
comment on column pgrab.blackouts.name is 'Name of the window.';
comment on column pgrab.blackouts.state is 'on, next, or over: it will not be on again.';
comment on column pgrab.blackouts.action is 'hold: what becomes due runs when it ends. skip: it is not run.';
comment on column pgrab.blackouts.begins_at is 'When the window begins that is on, or the next one.';
comment on column pgrab.blackouts.ends_at is 'When it ends.';
comment on column pgrab.blackouts.held is 'How many tasks it holds; it counts to 10000.';
comment on column pgrab.blackouts.tasks is 'Which tasks it is for.';
comment on column pgrab.blackouts.repeats is 'Its schedule, and how long it lasts each time. Null: once.';
comment on column pgrab.blackouts.note is 'Why.';
comment on column pgrab.blackouts.set_by is 'Who made it.';
