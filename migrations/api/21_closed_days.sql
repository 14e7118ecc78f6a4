-- The calendar, between its second and third part: schedules that keep to the open days of a pgrab.calendar.
--
-- The day of a fire is the date that a clock in the task's zone shows at that moment.  With `skip` a schedule
-- fires as without a calendar, but on open days only.  With `next` and `previous` each open day gathers the
-- fires of the closed days right before or right after it: each moves to the first instant at which the local
-- time of the open day has reached its own.  Fires that fall on one moment are one fire.
--
-- Nothing here is asked for a schedule without a calendar.

-- ------------------------------------------------------------------------------------------------- the days

create or replace function pgrab_internal.day_open(p_calendar text, p_day date) returns boolean
language sql stable parallel safe
return coalesce(
  (select d.open from pgrab.calendar_day d where d.calendar = p_calendar and d.day = p_day),
  (select lower(to_char(p_day, 'Dy')) <> all (c.closed_weekdays) from pgrab.calendar c
  where c.name = p_calendar),
  true);
comment on function pgrab_internal.day_open is 'Is this day open? A calendar that is gone closes none.';

-- Serves: cli_calendar_day.sql.
create or replace function pgrab_tool.days(p_first date, p_last date) returns table (day date)
language plpgsql stable as $$
begin
  if not isfinite(p_first) or not isfinite(p_last) or p_last - p_first not between 0 and 3660 then
    raise exception using errcode = '22023', message = format('%s..%s cannot be set', p_first, p_last),
      hint = 'Give a day, or the first and the last of at most ten years: 2026-12-24..2026-12-31.';
  end if;
  return query select p_first + i from generate_series(0, p_last - p_first) i;
end $$;
comment on function pgrab_tool.days is 'The days from one to another, at most ten years of them.';

create or replace function pgrab_internal.open_day(p_calendar text, p_from date, p_step integer) returns date
language plpgsql stable parallel safe as $$
begin
  for i in 0 .. 3653 loop -- ten years
    if pgrab_internal.day_open(p_calendar, p_from + i * p_step) then
      return p_from + i * p_step;
    end if;
  end loop;
  return null;
end $$;
comment on function pgrab_internal.open_day is
  'The first open day from this one on; p_step -1: going back. Null: there is none within ten years.';

create or replace function pgrab_internal.closed_why(p_calendar text, p_day date) returns text
language sql stable parallel safe
return format('calendar %s is closed on %s%s', p_calendar, to_char(p_day, 'Dy YYYY-MM-DD'), (
  select ': ' || d.note from pgrab.calendar_day d where d.calendar = p_calendar and d.day = p_day));
comment on function pgrab_internal.closed_why is 'Why nothing fires on a day, for readers.';

create or replace function pgrab_internal.local_day(p_timezone text, p_at timestamptz) returns date
language sql stable parallel safe
return timezone(p_timezone, p_at)::date;
comment on function pgrab_internal.local_day is 'The date in a zone at that instant.';

-- Where the clock changes near by, a day may begin earlier than PostgreSQL says, or more than once.
create or replace function pgrab_internal.day_begin(p_timezone text, p_day date) returns timestamptz
language sql stable parallel safe
begin atomic
  select case when timezone(p_timezone, b.at + interval '4 hours')
      - timezone(p_timezone, b.at - interval '4 hours') = interval '8 hours'
    then b.at else b.at - interval '4 hours' end - interval '1 us'
  from (select timezone(p_timezone, p_day::timestamp) as at) b;
end;
comment on function pgrab_internal.day_begin is
  'An instant right before a day in a zone; a few hours before it, if the clock changes near by.';

-- The rules for clock changes are those of a schedule that names this time of this day.
create or replace function pgrab_internal.local_reached(p_timezone text, p_local timestamp)
returns timestamptz
language plpgsql stable parallel safe as $$
declare
  v_at constant timestamptz := timezone(p_timezone, p_local);
begin
  if timezone(p_timezone, v_at - interval '1 day') = p_local - interval '1 day'
    and timezone(p_timezone, v_at + interval '1 day') = p_local + interval '1 day' then
    return v_at;
  end if;
  return pgrab_internal.next_fire_compiled(
    pgrab_internal.schedule_compile(to_char(p_local, 'FMSS FMMI FMHH24 FMDD FMMM "*"')), p_timezone,
    pgrab_internal.day_begin(p_timezone, p_local::date));
end $$;
comment on function pgrab_internal.local_reached is
  'The first instant at which the local time in a zone has reached this one.';

-- ------------------------------------------------------------------------------------------------- the fires

-- How far to look for a fire on an open day: 29 February is a Sunday every 28 years.
create or replace function pgrab_internal.closed_until(p_after timestamptz) returns timestamptz
language sql immutable parallel safe
return p_after + interval '30 years';
comment on function pgrab_internal.closed_until is
  'A schedule that has no fire on an open day until then has none.';

-- @every keeps its distance: what is left out is a multiple of it.
create or replace function pgrab_internal.fire_from(
  p_cron bigint[], p_timezone text, p_fire timestamptz, p_after timestamptz)
returns timestamptz
language sql stable parallel safe
return case
  when p_cron[1] >= 16 then p_fire + make_interval(secs => p_cron[2]
    * greatest(1, ceil(extract(epoch from p_after - p_fire) / p_cron[2]))::double precision)
  else pgrab_internal.next_fire_compiled(p_cron, p_timezone, greatest(p_fire, p_after)) end;
comment on function pgrab_internal.fire_from is 'The next fire after both a fire and an instant.';

create or replace function pgrab_internal.fire_before(
  p_cron bigint[], p_fire timestamptz, p_at timestamptz) returns timestamptz
language sql immutable parallel safe
return case when p_cron[1] >= 16 then p_fire + make_interval(secs => p_cron[2]
    * greatest(ceil(extract(epoch from p_at - p_fire) / p_cron[2]) - 1, 0)::double precision)
  else greatest(p_fire, p_at - interval '1 us') end;
comment on function pgrab_internal.fire_before is
  'An instant after which the next fire is the first one from p_at on.';

create or replace function pgrab_internal.fire_skip(
  p_cron bigint[], p_timezone text, p_after timestamptz, p_calendar text)
returns timestamptz
language plpgsql stable parallel safe as $$
declare
  v_fire timestamptz := pgrab_internal.next_fire_compiled(p_cron, p_timezone, p_after);
  v_open date;
begin
  while v_fire <= pgrab_internal.closed_until(p_after) loop
    v_open := pgrab_internal.open_day(p_calendar, pgrab_internal.local_day(p_timezone, v_fire), 1);
    if v_open is null or v_open = pgrab_internal.local_day(p_timezone, v_fire) then
      return case when v_open is not null then v_fire end;
    end if;
    v_fire := pgrab_internal.fire_from(
      p_cron, p_timezone, v_fire, pgrab_internal.day_begin(p_timezone, v_open));
  end loop;
  return null;
end $$;
comment on function pgrab_internal.fire_skip is 'The next fire on an open day. Null: there is none.';

-- The days from first_day to last_day are closed but for p_day, on which their fires are gathered.
create or replace function pgrab_internal.days_gathered(
  p_calendar text, p_day date, p_step integer, out first_day date, out last_day date)
language sql stable parallel safe
begin atomic
  select case when p_step = 1
      then coalesce(pgrab_internal.open_day(p_calendar, p_day - 1, -1) + 1, p_day - 3653) else p_day end,
    case when p_step = 1 then p_day
      else coalesce(pgrab_internal.open_day(p_calendar, p_day + 1, 1) - 1, p_day + 3653) end;
end;
comment on function pgrab_internal.days_gathered is
  'The days whose fires an open day has: p_step 1 with those before it (on_closed next), -1 with those '
  'after it (previous).';

create or replace function pgrab_internal.fire_moved(p_timezone text, p_fire timestamptz, p_day date)
returns timestamptz
language sql stable parallel safe
return case when pgrab_internal.local_day(p_timezone, p_fire) = p_day then p_fire
  else pgrab_internal.local_reached(p_timezone, p_day + timezone(p_timezone, p_fire)::time) end;
comment on function pgrab_internal.fire_moved is 'When a fire comes that its calendar moves to this day.';

-- Of each day the first fire that comes after p_after is enough: within a day, later fires come later.
create or replace function pgrab_internal.fire_onto(
  p_cron bigint[], p_timezone text, p_after timestamptz, p_day date, p_first date, p_last date)
returns timestamptz
language plpgsql stable parallel safe as $$
declare
  c_local constant timestamp := timezone(p_timezone, p_after);
  v_day date := p_first;
  v_fire timestamptz;
  v_found timestamptz;
begin
  while v_day <= p_last loop
    v_fire := pgrab_internal.next_fire_compiled(p_cron, p_timezone, case
      when v_day = p_day then greatest(p_after, pgrab_internal.day_begin(p_timezone, v_day))
      when c_local::date = p_day
        then pgrab_internal.local_reached(p_timezone, v_day + c_local::time) - interval '1 us'
      else pgrab_internal.day_begin(p_timezone, v_day) end);
    while pgrab_internal.local_day(p_timezone, v_fire) < v_day
      or pgrab_internal.local_day(p_timezone, v_fire) = v_day
        and pgrab_internal.fire_moved(p_timezone, v_fire, p_day) <= p_after loop
      v_fire := pgrab_internal.next_fire_compiled(p_cron, p_timezone, v_fire);
    end loop;
    exit when v_fire is null;
    if pgrab_internal.local_day(p_timezone, v_fire) = v_day then
      v_found := least(v_found, pgrab_internal.fire_moved(p_timezone, v_fire, p_day));
      v_day := v_day + 1;
    else
      v_day := pgrab_internal.local_day(p_timezone, v_fire);
    end if;
  end loop;
  return v_found;
end $$;
comment on function pgrab_internal.fire_onto is
  'The next fire that comes on this open day, its own or one of the closed days that it gathers. Null: '
  'there is none.';

create or replace function pgrab_internal.fire_move(
  p_cron bigint[], p_timezone text, p_after timestamptz, p_calendar text, p_step integer)
returns timestamptz
language plpgsql stable parallel safe as $$
declare
  v_day date := pgrab_internal.open_day(p_calendar, pgrab_internal.local_day(p_timezone, p_after), 1);
  g record;
  v_fire timestamptz;
begin
  loop
    g := pgrab_internal.days_gathered(p_calendar, v_day, p_step);
    v_fire := pgrab_internal.fire_onto(p_cron, p_timezone, p_after, v_day, g.first_day, g.last_day);
    if v_fire is not null or v_day is null then
      return v_fire;
    end if;
    v_fire := pgrab_internal.next_fire_compiled(
      p_cron, p_timezone, pgrab_internal.day_begin(p_timezone, g.last_day + 1));
    while pgrab_internal.local_day(p_timezone, v_fire) <= g.last_day loop
      v_fire := pgrab_internal.next_fire_compiled(p_cron, p_timezone, v_fire);
    end loop;
    if v_fire is null or v_fire > pgrab_internal.closed_until(p_after) then
      return null;
    end if;
    v_day := pgrab_internal.open_day(p_calendar, pgrab_internal.local_day(p_timezone, v_fire), p_step);
  end loop;
end $$;
comment on function pgrab_internal.fire_move is
  'The next fire, where those of closed days move to the next (p_step 1) or the previous open day (-1). '
  'Null: there is none.';

-- The one step from a fire to the next.
create or replace function pgrab_internal.fire_next(
  p_cron bigint[], p_timezone text, p_after timestamptz, p_calendar text, p_on_closed text)
returns timestamptz
language sql stable parallel safe
return case when p_calendar is null then pgrab_internal.next_fire_compiled(p_cron, p_timezone, p_after)
  when p_on_closed = 'skip' or p_cron[1] >= 16
    then pgrab_internal.fire_skip(p_cron, p_timezone, p_after, p_calendar)
  else pgrab_internal.fire_move(p_cron, p_timezone, p_after, p_calendar,
    case p_on_closed when 'next' then 1 else -1 end) end;
comment on function pgrab_internal.fire_next is
  'The next fire of a schedule that schedule_compile() has read, on the open days of a calendar (null: on '
  'all days).';

-- ------------------------------------------------------------------------- what becomes of the other fires

-- Those that move to the fire `p_fire` too; one of them is that fire.
create or replace function pgrab_internal.fires_merged(
  p_schedule text, p_timezone text, p_fire timestamptz, p_calendar text, p_step integer)
returns table (fire timestamptz, why text)
language plpgsql stable parallel safe as $$
declare
  c_cron constant bigint[] := pgrab_internal.schedule_compile(p_schedule);
  c_local constant timestamp := timezone(p_timezone, p_fire);
  g constant record := pgrab_internal.days_gathered(p_calendar, c_local::date, p_step);
begin
  for v_n in 0 .. least(g.last_day - g.first_day, 3653) loop
    continue when g.first_day + v_n = c_local::date;
    fire := pgrab_internal.next_fire_compiled(c_cron, p_timezone, pgrab_internal.local_reached(
      p_timezone, g.first_day + v_n + c_local::time) - interval '1 us');
    while pgrab_internal.local_day(p_timezone, fire) = g.first_day + v_n
      and pgrab_internal.fire_moved(p_timezone, fire, c_local::date) = p_fire loop
      why := pgrab_internal.closed_why(p_calendar, g.first_day + v_n)
        || format('; it falls together with the fire of %s', p_fire);
      return next;
      fire := pgrab_internal.next_fire_compiled(c_cron, p_timezone, fire);
    end loop;
  end loop;
end $$;
comment on function pgrab_internal.fires_merged is
  'The fires of closed days that move to the moment of this one.';

create or replace function pgrab_internal.fires_closed(
  p_schedule text, p_timezone text, p_from timestamptz, p_fire timestamptz, p_calendar text,
  p_on_closed text)
returns table (fire timestamptz, why text)
language plpgsql stable parallel safe rows 100 as $$
declare
  c_most constant integer := 100;
begin
  if p_on_closed = 'skip' then
    return query
    select f.fire, pgrab_internal.closed_why(p_calendar, pgrab_internal.local_day(p_timezone, f.fire))
      || case when f.n = c_most then format('; nor does any other fire before %s', p_fire) else '' end
    from (
      select x.fire, row_number() over () as n
      from pgrab.fires(p_schedule, p_timezone, p_from, p_fire - interval '1 us') x(fire) limit c_most) f;
  else
    return query
    select f.fire, f.why
    from pgrab_internal.fires_merged(p_schedule, p_timezone, p_fire, p_calendar,
      case p_on_closed when 'next' then 1 else -1 end) f
    where f.fire > p_from
    order by f.fire offset (
      -- the day has a fire of its own, which is the one that runs; otherwise the first of these is
      case when pgrab.next_fire(p_schedule, p_timezone, p_fire - interval '1 us') = p_fire then 0 else 1 end)
    limit c_most;
  end if;
end $$;
comment on function pgrab_internal.fires_closed is
  'Fires that are not run, because of a calendar, when p_fire is the next one after p_from; the first '
  'hundred.';
