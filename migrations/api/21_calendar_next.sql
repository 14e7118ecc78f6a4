-- The calendar, second part: from one fire of a compiled schedule to the next.
--
-- Two kinds of numbers run through this file, both bigint seconds since 1970:
--   an *instant* counts elapsed seconds (UTC)
--   a *local* second is what a wall clock in the zone shows, read as if UTC
--   local = instant + shift, and the shift is all that a time zone is.
-- Daylight saving: a schedule with a wildcard hour matches every instant whose local time matches (elapsed
-- time).  Any other follows a clock that never goes back: it fires at the first instant at which local time
-- has *reached* the wanted time.  So a time in a gap fires once, right after the gap, and a time that an
-- overlap repeats fires the first time.  No zone since 1970 has changed its shift twice within three days;
-- looking one and two days around, as below, relies on that.

create or replace function pgrab_internal.zone_shift(p_timezone text, p_instant bigint) returns bigint
language sql stable parallel safe
return pg_catalog.date_part('epoch',
    pg_catalog.timezone(p_timezone, pg_catalog.to_timestamp(p_instant)))::pg_catalog.int8 - p_instant;
comment on function pgrab_internal.zone_shift is
  'Seconds by which local time in the zone is ahead of UTC at that instant.';

-- --------------------------------------------------------------------------------------- the days of a month

create or replace function pgrab_internal.cron_days(p_day bigint, p_length integer, p_first integer)
returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_bits bigint := p_day & ((1::bigint << (p_length + 1)) - 2);
  v_near bigint := (p_day >> 31) & ((1::bigint << (p_length + 1)) - 2);
  v_day integer;
  v_weekday integer;
begin
  if p_day & 1 <> 0 then
    v_bits := v_bits | (1::bigint << p_length);
  end if;
  if p_day < 0 then                       -- LW: a Saturday goes back one day, a Sunday two
    v_weekday := (p_first + p_length - 1) % 7;
    v_bits := v_bits | (1::bigint << (p_length - case v_weekday when 6 then 1 when 0 then 2 else 0 end));
  end if;
  while v_near <> 0 loop
    v_day := pgrab_internal.lowest_bit(v_near);
    v_near := v_near & (v_near - 1);
    v_weekday := (p_first + v_day - 1) % 7;
    v_bits := v_bits | (1::bigint << (v_day + case
      when v_weekday = 6 then case v_day when 1 then 2 else -1 end
      when v_weekday = 0 then case v_day when p_length then -2 else 1 end
      else 0 end));
  end loop;
  return v_bits;
end $$;
comment on function pgrab_internal.cron_days is
  'Days (bits 1-31) that a day-of-month set with L, LW or nW means in a month of that length whose first is '
  'that day of the week. nW never leaves its month, and in a month without day n it matches nothing.';

create or replace function pgrab_internal.cron_weekdays(p_weekday bigint, p_length integer, p_first integer)
returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_bits bigint := 0;
  v_weekday integer;
  v_nth bigint;                           -- bit 0 every such day, 1-5 the n-th, 6 the last
begin
  for v_day in 1 .. p_length loop
    v_weekday := (p_first + v_day - 1) % 7;
    v_nth := p_weekday >> v_weekday;
    if v_nth & 1 <> 0 or (v_nth >> (7 * ((v_day + 6) / 7))) & 1 <> 0
      or (v_day > p_length - 7 and (v_nth >> 42) & 1 <> 0) then
      v_bits := v_bits | (1::bigint << v_day);
    end if;
  end loop;
  return v_bits;
end $$;
comment on function pgrab_internal.cron_weekdays is
  'Days (bits 1-31) that a day-of-week set with d#n or dL means in a month of that length whose first is '
  'that day of the week.';

create or replace function pgrab_internal.cron_month(p_cron bigint[], p_length integer, p_first integer)
returns bigint
language plpgsql immutable parallel safe as $$
declare
  c_days constant bigint := case when p_cron[5] & -4294967295 = 0 then p_cron[5]
    else pgrab_internal.cron_days(p_cron[5], p_length, p_first) end;
  c_weekdays constant bigint := case when p_cron[7] < 128
    then (((p_cron[7] | (p_cron[7] << 7)) >> p_first) & 127) * 541098242
    else pgrab_internal.cron_weekdays(p_cron[7], p_length, p_first) end;
begin
  return case when p_cron[1] & 4 <> 0 then c_days | c_weekdays else c_days & c_weekdays end
    & ((1::bigint << (p_length + 1)) - 1);
end $$;
comment on function pgrab_internal.cron_month is
  'Days (bits 1-31) that match in a month of that length whose first is that day of the week.';

create or replace function pgrab_internal.cron_next_day(p_cron bigint[], p_day integer) returns integer
language plpgsql immutable parallel safe as $$
declare
  c_date constant date := date '1970-01-01' + p_day;
  v_year integer := pg_catalog.date_part('year', c_date);
  v_month integer := pg_catalog.date_part('month', c_date);
  v_start integer := p_day + 1 - pg_catalog.date_part('day', c_date)::integer;  -- number of the month's first
  c_last constant integer := v_year + 400;         -- the calendar repeats itself after 400 years
  v_days bigint;
begin
  while v_year <= c_last loop
    if (p_cron[6] >> v_month) & 1 <> 0 then
      -- the day of the week of the first; the constant makes it positive from the year 1 on
      v_days := pgrab_internal.cron_month(
        p_cron, case when v_month <> 2 then 30 + ((v_month + v_month / 8) & 1)
          when v_year % 4 = 0 and (v_year % 100 <> 0 or v_year % 400 = 0) then 29 else 28 end,
        (v_start + 719163) % 7);
      if p_day > v_start then
        v_days := (v_days >> (p_day - v_start + 1)) << (p_day - v_start + 1);
      end if;
      if v_days <> 0 then
        return v_start + pgrab_internal.lowest_bit(v_days) - 1;
      end if;
    end if;
    -- on to the next month that is wanted, in this year or the next
    v_days := p_cron[6] >> (v_month + 1);
    if v_days <> 0 then
      v_month := v_month + 1 + pgrab_internal.lowest_bit(v_days);
    else
      v_month := pgrab_internal.lowest_bit(p_cron[6]);
      v_year := v_year + 1;
    end if;
    v_start := pg_catalog.make_date(v_year, v_month, 1) - date '1970-01-01';
  end loop;
  return null;
end $$;
comment on function pgrab_internal.cron_next_day is
  'First day that matches a compiled cron expression, from the given one on; days are counted from '
  '1970-01-01. Goes month by month with the set of matching days, and gives up (null) after 400 years, when '
  'the calendar repeats.';

create or replace function pgrab_internal.cron_next(p_cron bigint[], p_local bigint) returns bigint
language plpgsql immutable parallel safe as $$
declare
  v_day integer := (p_local + 62135596800) / 86400 - 719162;
  v_time integer := (p_local + 62135596800) % 86400;
  v_bits bigint;
  v_next integer;
begin
  if p_cron[1] & 2 = 0 then
    v_next := pgrab_internal.cron_next_day(p_cron, v_day);
    if v_next > v_day or v_next is null then
      return v_next * 86400::bigint + p_cron[8];
    end if;
  end if;
  if (p_cron[4] >> (v_time / 3600)) & 1 <> 0 then
    if (p_cron[3] >> (v_time / 60 % 60)) & 1 <> 0 then
      v_bits := p_cron[2] >> (v_time % 60);
      if v_bits <> 0 then
        return p_local + pgrab_internal.lowest_bit(v_bits);
      end if;
    end if;
    v_bits := p_cron[3] >> (v_time / 60 % 60 + 1);
    if v_bits <> 0 then
      return p_local - v_time % 60 + 60 * (1 + pgrab_internal.lowest_bit(v_bits)) + p_cron[10];
    end if;
  end if;
  v_bits := p_cron[4] >> (v_time / 3600 + 1);
  if v_bits <> 0 then
    return p_local - v_time % 3600 + 3600 * (1 + pgrab_internal.lowest_bit(v_bits)) + p_cron[9];
  end if;
  v_day := case when p_cron[1] & 2 <> 0 then v_day + 1
    else pgrab_internal.cron_next_day(p_cron, v_day + 1) end;
  return v_day * 86400::bigint + p_cron[8];
end $$;
comment on function pgrab_internal.cron_next is
  'First local second that matches a compiled cron expression, from the given one on, ignoring clock '
  'changes; null if there is none.';

-- ---------------------------------------------------------------------------------------- when clocks change

create or replace function pgrab_internal.zone_change(p_timezone text, p_from bigint, p_to bigint)
returns bigint
language plpgsql stable parallel safe as $$
declare
  c_shift constant bigint := pgrab_internal.zone_shift(p_timezone, p_from);
  v_low bigint := p_from;
  v_high bigint := p_to;
  v_middle bigint;
begin
  while v_high - v_low > 1 loop
    v_middle := (v_low + v_high) / 2;
    if pgrab_internal.zone_shift(p_timezone, v_middle) = c_shift then
      v_low := v_middle;
    else
      v_high := v_middle;
    end if;
  end loop;
  return v_high;
end $$;
comment on function pgrab_internal.zone_change is
  'The instant in (from, to] at which the zone changed its shift; there must be exactly one.';

create or replace function pgrab_internal.fire_walk(p_cron bigint[], p_timezone text, p_instant bigint)
returns bigint
language plpgsql stable parallel safe as $$
declare
  c_fixed constant boolean := p_cron[1] & 1 = 0;
  v_from bigint := p_instant;
  v_shift bigint := pgrab_internal.zone_shift(p_timezone, v_from);
  v_done bigint := v_from + v_shift + 1;  -- local times before this are done with
  v_local bigint;
  v_fire bigint;
  v_end bigint;
begin
  if c_fixed and pgrab_internal.zone_shift(p_timezone, v_from - 86400) > v_shift then
    v_end := pgrab_internal.zone_change(p_timezone, v_from - 86400, v_from);
    v_done := greatest(v_done, v_end + pgrab_internal.zone_shift(p_timezone, v_end - 1));
  end if;
  loop
    v_local := pgrab_internal.cron_next(p_cron, greatest(v_from + v_shift, v_done));
    v_fire := v_local - v_shift;
    v_end := least(v_fire, v_from + 172800);
    if v_fire is null then
      return null;
    elsif pgrab_internal.zone_shift(p_timezone, v_end) = v_shift then
      exit when v_end = v_fire;
      -- no fire and no clock change within two days: continue shortly before the fire
      v_from := greatest(v_end, v_fire - 259200);
    else
      v_end := pgrab_internal.zone_change(p_timezone, v_from, v_end);
      exit when v_fire < v_end;
      v_from := v_end;
      if not c_fixed then
        v_done := v_end + pgrab_internal.zone_shift(p_timezone, v_end);   -- repeated times count again
      elsif v_local < v_end + pgrab_internal.zone_shift(p_timezone, v_end) then
        return v_end;                     -- skipped by the gap: right after it
      end if;
    end if;
    v_shift := pgrab_internal.zone_shift(p_timezone, v_from);
  end loop;
  return v_fire;
end $$;
comment on function pgrab_internal.fire_walk is
  'First fire after an instant that has a clock change near by: walks from one stretch of constant shift to '
  'the next. The rules for daylight saving are here and nowhere else.';

create or replace function pgrab_internal.next_fire_compiled(
  p_cron bigint[], p_timezone text, p_after timestamptz)
returns timestamptz
language plpgsql stable strict parallel safe as $$
declare
  v_instant bigint;
  v_shift bigint;
  v_local bigint;
  v_fire bigint;
begin
  if p_cron[1] >= 16 then
    return p_after + pg_catalog.make_interval(secs => p_cron[2]);
  elsif p_after < '0001-01-03 00:00:00Z' or p_after > '9999-12-29 00:00:00Z' then
    return null;
  end if;
  v_instant := pg_catalog.floor(pg_catalog.date_part('epoch', p_after));
  if p_timezone = 'UTC' then
    return pg_catalog.to_timestamp(pgrab_internal.cron_next(p_cron, v_instant + 1));
  elsif p_timezone !~ '^(Europe|America|Asia|Africa|Australia)/[A-Za-z_]+$' then
    perform pgrab_internal.zone_check(p_timezone);
  end if;

  -- nearly always there is no clock change near by, and two or three checks prove it
  v_shift := pgrab_internal.zone_shift(p_timezone, v_instant);
  v_local := pgrab_internal.cron_next(p_cron, v_instant + 1 + v_shift);
  v_fire := v_local - v_shift;
  if v_fire < v_instant + 172800 then
    if pgrab_internal.zone_shift(p_timezone, v_fire) = v_shift
      and (p_cron[1] & 1 <> 0 or pgrab_internal.zone_shift(p_timezone, v_instant - 86400) = v_shift) then
      return pg_catalog.to_timestamp(v_fire);
    end if;
  elsif p_cron[1] & 1 = 0 or pgrab_internal.zone_shift(p_timezone, v_instant + 86400) = v_shift then
    v_shift := pgrab_internal.zone_shift(p_timezone, v_fire);
    v_fire := v_local - v_shift;
    if pgrab_internal.zone_shift(p_timezone, v_fire - 86400) = v_shift
      and pgrab_internal.zone_shift(p_timezone, v_fire + 86400) = v_shift then
      return pg_catalog.to_timestamp(v_fire);
    end if;
  end if;
  return pg_catalog.to_timestamp(pgrab_internal.fire_walk(p_cron, p_timezone, v_instant));
end $$;
comment on function pgrab_internal.next_fire_compiled is
  'next_fire() for a schedule that schedule_compile() has read. Null outside the years 1 to 9999.';
