-- Calendars that were edited: the tasks that keep to them are planned again.
--
--   an edit      refuses a calendar without open days, and leaves a row in pgrab_internal.replan
--   a node       goes through the tasks of that calendar, a slice at a time, and skips those that are locked
--
-- A task that is planned while its row is locked reads the calendar as it is then; so only transactions that
-- began before the edit was committed can have planned with the calendar as it was.  When the last of them
-- is over, the tasks are gone through once more.

create or replace function pgrab_internal.calendar_edited(p_calendar text) returns void
language plpgsql as $$
begin
  if exists (select from pgrab.calendar c where c.name = p_calendar)
    and pgrab_internal.open_day(p_calendar, current_date, 1) is null then
    raise exception using errcode = '22023', schema = 'pgrab', table = 'calendar',
      message = format('calendar %s has no open day in the next ten years', quote_literal(p_calendar)),
      hint = 'Leave a weekday out of closed_weekdays, or insert the days that are open into '
        'pgrab.calendar_day, with open = true, in the same statement or transaction first.';
  end if;
  insert into pgrab_internal.replan (calendar) values (p_calendar);
end $$;
comment on function pgrab_internal.calendar_edited is
  'Refuses a calendar without open days; has the tasks that use it planned again.';

create or replace function pgrab_internal.calendar_event(p_calendar text, p_detail jsonb) returns void
language sql as $$
  insert into pgrab.event (what, role, task, owner, detail)
  values ('calendar', pgrab_internal.caller(), p_calendar, (
    select c.owner from pgrab.calendar c where c.name = p_calendar), p_detail)
$$;
comment on function pgrab_internal.calendar_event is 'Records a change to a calendar.';

create or replace function pgrab_internal.calendar_changed() returns trigger
language plpgsql as $$
begin
  if tg_op <> 'INSERT' and exists (select from pgrab.task t where t.calendar = old.name)
    and (tg_op = 'DELETE' or new.name <> old.name) then
    raise exception using errcode = '2BP01', schema = 'pgrab', table = 'calendar',
      message = format('calendar %s is used by tasks', quote_literal(old.name)),
      hint = format('update pgrab.task set calendar = null where calendar = %L.', old.name);
  elsif tg_op <> 'DELETE' then
    perform pgrab_internal.calendar_edited(new.name);
    perform pg_notify('pgrab', 'calendars');
  end if;
  perform pgrab_internal.calendar_event(coalesce(new.name, old.name),
    jsonb_build_object(lower(tg_op), coalesce(to_jsonb(new), to_jsonb(old))));
  return null;
end $$;
comment on function pgrab_internal.calendar_changed is
  'Records a change to a calendar. Refuses to delete one that tasks use, and one without open days.';
create trigger calendar_10_caller after insert or update or delete on pgrab.calendar
  for each row when (not pgrab_internal.in_call()) execute function pgrab_tool.note_caller();
create trigger calendar_20_changed after insert or update or delete on pgrab.calendar
  for each row execute function pgrab_internal.calendar_changed();

-- Once per statement: a file of holidays is one edit.
create or replace function pgrab_internal.calendar_days_changed() returns trigger
language plpgsql as $$
declare
  c record;
begin
  for c in
    select n.calendar, count(*) as n, min(n.day) as first_day, max(n.day) as last_day
    from changed n group by n.calendar order by n.calendar
  loop
    continue when not exists (select from pgrab.calendar x where x.name = c.calendar);
    perform pgrab_internal.calendar_edited(c.calendar);
    perform pgrab_internal.calendar_event(c.calendar, jsonb_build_object(
      lower(tg_op), c.n, 'first_day', c.first_day, 'last_day', c.last_day));
    perform pg_notify('pgrab', 'calendars');
  end loop;
  return null;
end $$;
comment on function pgrab_internal.calendar_days_changed is 'Records a change to the days of calendars.';
create trigger calendar_day_10_caller after insert or update or delete on pgrab.calendar_day
  for each statement when (not pgrab_internal.in_call()) execute function pgrab_tool.note_caller();
create trigger calendar_day_20_inserted after insert on pgrab.calendar_day
  referencing new table as changed for each statement execute function pgrab_internal.calendar_days_changed();
create trigger calendar_day_20_updated after update on pgrab.calendar_day
  referencing new table as changed for each statement execute function pgrab_internal.calendar_days_changed();
create trigger calendar_day_20_deleted after delete on pgrab.calendar_day
  referencing old table as changed for each statement execute function pgrab_internal.calendar_days_changed();

-- When nothing is open for it any more, a task is neither lost nor run on a closed day: it waits for ten
-- years, or for another edit.
create or replace function pgrab_internal.replan_rows(p_tasks pgrab_internal.task[], p_now timestamptz)
returns void
language plpgsql as $$
declare
  v_moves pgrab_internal.move[];
begin
  with task as materialized (
    select x.t, x.n, (x.t).schedule, (x.t).timezone, (x.t).calendar, (x.t).on_closed,
      case when e.every is null
          then pgrab_internal.fire_after((x.t).schedule, (x.t).starts_at, p_now, p_now)
        -- @every goes on counting from where it was
        else (x.t).fire_at - e.every * ceil(extract(epoch from (x.t).fire_at - p_now)
          / extract(epoch from e.every))::double precision end as after
    from (select row(t.*)::pgrab_internal.task as t, row_number() over () as n from unnest(p_tasks) t) x
      cross join lateral (select case when pgrab_internal.schedule_kind((x.t).schedule) <> 'cron'
        then pgrab_internal.every_seconds((x.t).schedule) end as every) e),
  fire as materialized (
    select n.ord, coalesce(n.fire, p_now + interval '10 years') as fire
    from (
      select array_agg(t.schedule order by t.n), array_agg(t.timezone order by t.n),
        array_agg(t.after order by t.n), array_agg(t.calendar order by t.n),
        array_agg(t.on_closed order by t.n)
      from task t) q(schedules, zones, afters, calendars, closes)
      cross join lateral pgrab_internal.next_fires(q.schedules, q.zones, q.afters, q.calendars, q.closes) n),
  -- A fire that was given an hour by hand stays, and so does one that follows a fire skipped by hand.  For
  -- `skip` the former shows in that it is no fire of the schedule.
  moved as materialized (
    select t.t, t.after, f.fire
    from task t join fire f on f.ord = t.n
    where f.fire <> (t.t).fire_at
      and not (t.on_closed = 'skip' and pgrab_internal.schedule_kind(t.schedule) = 'cron'
        and pgrab.next_fire(t.schedule, t.timezone, (t.t).fire_at - interval '1 us')
          is distinct from (t.t).fire_at)
      and not (f.fire < (t.t).fire_at and exists (
        select from pgrab.run r where r.task_id = (t.t).id and r.fire_at = f.fire and r.outcome = 'skipped'
          and r.error like 'skipped by %'))),
  noted as (
    select pgrab_internal.note_closed(array_agg((m.t).id), array_agg(m.after), array_agg(m.fire))
    from moved m)
  select array_agg(pgrab_internal.move_to((m.t).id, (m.t).version, 'replan', p_fire_at => m.fire,
    p_run_at => m.fire, p_settled => false)) into v_moves
  from moved m cross join noted;
  perform pgrab_internal.move(v_moves);
end $$;
comment on function pgrab_internal.replan_rows is
  'Plans tasks with a calendar again, whose rows are locked; those whose next fire is another one by now '
  'are moved to it.';

-- Edits that have been committed meanwhile are served by the same round.
create or replace function pgrab_internal.replan_begin(out id bigint, out calendar text, out next_id bigint)
language plpgsql as $$
declare
  r record;
begin
  select x.* into r from pgrab_internal.replan x
  where x.next_id is not null or not x.started or x.edit < pg_snapshot_xmin(pg_current_snapshot())
  order by x.next_id is null, x.id limit 1;
  if r.id is null or r.next_id is not null then
    id := r.id;
    calendar := r.calendar;
    next_id := r.next_id;
    return;
  end if;
  with others as (
    delete from pgrab_internal.replan x where x.calendar = r.calendar and x.id <> r.id returning x.edit)
  select max(e.edit) into r.edit from (select r.edit union all select o.edit from others o) e(edit);
  update pgrab_internal.replan x
  set edit = r.edit, started = true, next_id = -9223372036854775808,
    final = r.edit < pg_snapshot_xmin(pg_current_snapshot())
  where x.id = r.id returning x.id, x.calendar, x.next_id into id, calendar, next_id;
end $$;
comment on function pgrab_internal.replan_begin is
  'The calendar whose tasks are to be planned again now. Null: none.';

create or replace function pgrab_internal.replan_slice(p_id bigint, p_calendar text, p_after bigint)
returns bigint
language plpgsql as $$
declare
  c_slice constant integer := 10; -- a schedule that fires on closed days only is looked at for 30 years
  v_tasks pgrab_internal.task[];
  v_ids bigint[] := array(
    select t.id from pgrab.task t where t.calendar = p_calendar and t.id > p_after
    order by t.id limit c_slice);
begin
  select array_agg(row(t.*)::pgrab_internal.task) into v_tasks
  from unnest(v_ids) i(id) cross join lateral (
    select x.* from pgrab.task x
    where x.id = any (array[i.id]) and x.calendar = p_calendar and x.schedule is not null
      and x.status in ('scheduled', 'claimed') and x.attempt = 0 and x.fire_at > clock_timestamp()
    for update skip locked) t;
  if v_tasks is not null then
    perform pgrab_internal.replan_rows(v_tasks, now());
  end if;
  update pgrab_internal.replan x set next_id = case when v_ids <> '{}' then v_ids[cardinality(v_ids)] end
  where x.id = p_id;
  delete from pgrab_internal.replan x where x.id = p_id and v_ids = '{}' and x.final;
  return cardinality(v_tasks);
end $$;
comment on function pgrab_internal.replan_slice is
  'Plans the next 10 tasks of a calendar again. Those that somebody has locked are left to the next round, '
  'or read the calendar themselves.';

-- Serves: tell.sql.
create or replace function pgrab_internal.calendars_tick(out done bigint, out left_over boolean)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '200 ms';
  r record;
begin
  done := 0;
  if exists (select from pgrab_internal.replan) and pgrab_internal.duty_take('calendars', '0') then
    loop
      r := pgrab_internal.replan_begin();
      exit when r.id is null or clock_timestamp() > c_until;
      done := done + 1 + coalesce(pgrab_internal.replan_slice(r.id, r.calendar, r.next_id), 0);
    end loop;
  end if;
  left_over := exists (select from pgrab_internal.replan);
end $$;
comment on function pgrab_internal.calendars_tick is
  'Plans tasks again whose calendar was edited, for 200 ms. done: nothing, if 0; left_over: is there more '
  'to do, perhaps later?';

-- ----------------------------------------------------------------------------------------------- for users

create or replace view pgrab.calendars as
select c.name, case when c.closed_weekdays = '{}' then 'none'
    else array_to_string(c.closed_weekdays, ' ') end as closed_weekdays,
  d.closed, d.open, t.tasks, n.next_closed, n.note, c.owner
from pgrab.calendar c
cross join lateral (
  select count(*) filter (where not x.open) as closed, count(*) filter (where x.open) as open
  from pgrab.calendar_day x where x.calendar = c.name and x.day >= current_date) d
cross join lateral (select count(*) as tasks from pgrab.task x where x.calendar = c.name) t
left join lateral (
  select x.day as next_closed, x.note from pgrab.calendar_day x
  where x.calendar = c.name and x.day >= current_date and not x.open order by x.day limit 1) n on true;
comment on view pgrab.calendars is 'The calendars, and what is ahead in them.';
comment on column pgrab.calendars.name is 'The word for pgrab.task.calendar.';
comment on column pgrab.calendars.closed_weekdays is 'Days of the week that are closed.';
comment on column pgrab.calendars.closed is 'How many single days are closed, from today on.';
comment on column pgrab.calendars.open is 'How many single days are open instead, from today on.';
comment on column pgrab.calendars.tasks is 'How many tasks use it.';
comment on column pgrab.calendars.next_closed is 'The first of the closed days.';
comment on column pgrab.calendars.note is 'Why it is closed.';
comment on column pgrab.calendars.owner is 'Who made it.';
