-- The calendar, third part: what triggers, nodes and users call.

create or replace function pgrab.next_fire(
  schedule text, timezone text default 'UTC', after timestamptz default pg_catalog.now()) returns timestamptz
language sql stable parallel safe
return pgrab_internal.next_fire_compiled(pgrab_internal.schedule_compile($1), $2, $3);
comment on function pgrab.next_fire(text, text, timestamptz) is
  'First fire of a schedule strictly after an instant (now). Cron: minute hour day-of-month month '
  'day-of-week, with an optional leading seconds field; * or ?, a, a-b, a-b/n, */n, a/n (from a, every '
  'n), lists; JAN-DEC, SUN-SAT; 0 and 7 are Sunday (not the 1 = Sunday of Quartz); L, LW, nW in '
  'day-of-month, dL (last) and d#n in day-of-week. When neither day field starts with * or ?, either is '
  'enough; otherwise both must match. Words: @yearly, @annually, @monthly, @weekly, @daily, @midnight, '
  '@hourly. @every 1h30m and @after 90s return after + the interval: the caller chooses whether after is '
  'the last planned time (every) or the end of the last run (after). Daylight saving: if the hour field '
  'starts with * or ?, every real local time that matches fires, so */15 fires in both repeated hours and '
  '*/2 at every even hour the clock shows. Otherwise a time that the clock skips fires once, right after '
  'the gap (several: once), and a time that it repeats fires once, the first time. Many at once: '
  'next_fires(); the same schedule again and again: schedule_compile().';

create or replace function pgrab_internal.fires_on(schedule text, timezone text, "from" timestamptz,
  "until" timestamptz, calendar text, on_closed text)
returns setof timestamptz
language sql stable parallel safe
begin atomic
  with recursive rule as materialized (
    select pgrab_internal.schedule_compile($1) as cron),
  fire(fire_at) as (
    select n.fire_at
    from rule as r
      cross join lateral (select pgrab_internal.fire_next(r.cron, $2, $3, $5, $6) as fire_at offset 0) as n
    where n.fire_at <= $4
    union all
    select n.fire_at
    from fire as f
      cross join rule as r
      cross join lateral (
        select pgrab_internal.fire_next(r.cron, $2, f.fire_at, $5, $6) as fire_at offset 0) as n
    where n.fire_at <= $4)
  select f.fire_at from fire as f;
end;
comment on function pgrab_internal.fires_on is
  'pgrab.fires() on the open days of a calendar (null: on all days).';

create or replace function pgrab.fires(schedule text, timezone text, "from" timestamptz, "until" timestamptz)
returns setof timestamptz
language sql stable parallel safe
begin atomic
  select f.f from pgrab_internal.fires_on($1, $2, $3, $4, null, 'skip') as f(f);
end;
comment on function pgrab.fires(text, text, timestamptz, timestamptz) is
  'All fires of a schedule with from < fire <= until, in order. In FROM it is lazy: with LIMIT it stops '
  'there, even when until is infinity, if no argument is a subquery: select * from '
  'pgrab.fires(''0 9 * * MON-FRI'', ''Europe/Berlin'', now(), ''infinity'') limit 5.';

-- A calendar is read with the rights of the caller, who is told of one that is not for him what he is told of
-- one that does not exist.
create or replace function pgrab_internal.calendar_known(p_calendar text, p_seen boolean) returns text
language plpgsql stable parallel safe as $$
begin
  if p_calendar is not null and not p_seen then
    raise exception using errcode = '22023',
      message = format('there is no calendar %s', quote_literal(left(p_calendar, 200))),
      hint = 'Make it first: insert into pgrab.calendar (name) values (''office'').';
  end if;
  return p_calendar;
end $$;
comment on function pgrab_internal.calendar_known is 'Refuses a calendar that is not there.';

create or replace function pgrab_internal.on_closed_known(p_on_closed text) returns text
language plpgsql immutable parallel safe as $$
begin
  if p_on_closed is null or p_on_closed not in ('skip', 'next', 'previous') then
    raise exception using errcode = '22023',
      message = format('on_closed cannot be %s', coalesce(quote_literal(left(p_on_closed, 200)), 'null')),
      hint = 'One of: skip, next, previous.';
  end if;
  return p_on_closed;
end $$;
comment on function pgrab_internal.on_closed_known is 'Refuses another word.';

create or replace function pgrab.next_fire(
  schedule text, timezone text, after timestamptz, calendar text, on_closed text default 'skip')
returns timestamptz
language sql stable parallel safe
return pgrab_internal.fire_next(pgrab_internal.schedule_compile($1), $2, $3,
  pgrab_internal.calendar_known($4, exists (select from pgrab.calendar c where c.name = $4)),
  pgrab_internal.on_closed_known($5));
comment on function pgrab.next_fire(text, text, timestamptz, text, text) is
  'The same on the open days of a calendar. on_closed: skip (no fire on a closed day), next or previous (it '
  'moves to the same local time of the next or previous open day; @every and @after always skip). Null: '
  'there is none in 30 years.';

create or replace function pgrab.fires(schedule text, timezone text, "from" timestamptz, "until" timestamptz,
  calendar text, on_closed text default 'skip')
returns setof timestamptz
language sql stable parallel safe
begin atomic
  select f.f
  from (
    select pgrab_internal.on_closed_known($6) as on_closed, pgrab_internal.calendar_known(
      $5, exists (select from pgrab.calendar c where c.name = $5)) as calendar offset 0) as k
    cross join lateral pgrab_internal.fires_on($1, $2, $3, $4, k.calendar, k.on_closed) as f(f);
end;
comment on function pgrab.fires(text, text, timestamptz, timestamptz, text, text) is
  'The same on the open days of a calendar; on_closed as for pgrab.next_fire().';

-- Fires are counted by the hour: a schedule of seconds has 86,400 a day, and a task may have missed a month
-- of them.
create or replace function pgrab_internal.bits_below(p_bits bigint, p_n integer) returns bigint
language sql immutable parallel safe
return pg_catalog.bit_count((p_bits & ((1::bigint << p_n) - 1))::bit(64));
comment on function pgrab_internal.bits_below is 'How many of the lowest p_n bits (60 at most) are set.';

create or replace function pgrab_internal.hour_fires(p_cron bigint[], p_seconds bigint) returns bigint
language sql immutable parallel safe
begin atomic
  select pgrab_internal.bits_below($1[3], s.n / 60) * pgrab_internal.bits_below($1[2], 60)
    + (($1[3] >> (s.n / 60)) & 1) * pgrab_internal.bits_below($1[2], s.n % 60)
  from (select greatest(0, least($2, 3600))::integer as n offset 0) as s;
end;
comment on function pgrab_internal.hour_fires is
  'How many fires of a compiled cron expression lie in the first p_seconds seconds of an hour that matches.';

create or replace function pgrab_internal.next_instant(p_cron bigint[], p_timezone text, p_instant bigint)
returns bigint
language sql stable parallel safe
return pg_catalog.date_part('epoch', pgrab_internal.next_fire_compiled(p_cron, p_timezone,
  pg_catalog.to_timestamp(p_instant)))::bigint;
comment on function pgrab_internal.next_instant is 'next_fire_compiled() in seconds since 1970.';

-- Goes from one hour that has fires to the next.  Where the clock changes on the way it counts one by one; an
-- hour may then last for some hours, so it begins that much earlier.
create or replace function pgrab_internal.fires_count(
  p_cron bigint[], p_timezone text, p_from bigint, p_until bigint) returns bigint
language plpgsql stable parallel safe as $$
declare
  c_longest constant integer := 4 * 3600;
  c_hourly constant bigint[] :=
    array[p_cron[1], p_cron[2] & -p_cron[2], p_cron[3] & -p_cron[3]] || p_cron[4:];
  v_at bigint := pgrab_internal.next_instant(c_hourly, p_timezone, p_from - c_longest);
  v_next bigint;
  v_shift bigint;
  v_count bigint := 0;
begin
  while v_at <= p_until loop
    v_next := coalesce(pgrab_internal.next_instant(c_hourly, p_timezone, v_at), v_at + c_longest);
    v_shift := pgrab_internal.zone_shift(p_timezone, v_at);
    if pgrab_internal.zone_shift(p_timezone, v_at - 1) = v_shift
      and pgrab_internal.zone_shift(p_timezone, v_next) = v_shift then
      v_count := v_count + pgrab_internal.hour_fires(p_cron, p_until - v_at + p_cron[9] + 1)
        - pgrab_internal.hour_fires(p_cron, p_from - v_at + p_cron[9] + 1);
    else
      v_at := pgrab_internal.next_instant(p_cron, p_timezone, greatest(v_at - 1, p_from));
      while v_at < v_next and v_at <= p_until loop
        v_count := v_count + 1;
        v_at := pgrab_internal.next_instant(p_cron, p_timezone, v_at);
      end loop;
    end if;
    v_at := v_next;
  end loop;
  return v_count;
end $$;
comment on function pgrab_internal.fires_count is
  'How many fires a compiled cron expression has with from < fire <= until, in seconds since 1970.';

-- Looks back from the end, twice as far each time, until there are enough; then the stretch is halved.
create or replace function pgrab_internal.nth_last_cron(
  p_cron bigint[], p_timezone text, p_from bigint, p_until bigint, p_n bigint) returns bigint
language plpgsql stable parallel safe as $$
declare
  v_span bigint := 3600;
  v_low bigint := p_until;
  v_high bigint := p_until;
  v_after bigint := 0;                    -- fires after v_high
  v_n bigint := 0;
begin
  while v_after + v_n < p_n loop
    if v_low <= p_from then
      return null;
    end if;
    v_after := v_after + v_n;
    v_high := v_low;
    v_low := greatest(p_from, v_high - v_span);
    v_n := pgrab_internal.fires_count(p_cron, p_timezone, v_low, v_high);
    v_span := 2 * v_span;
  end loop;
  while v_high - v_low > 1 loop
    v_span := (v_high - v_low) / 2;
    v_n := pgrab_internal.fires_count(p_cron, p_timezone, v_low + v_span, v_high);
    if v_after + v_n >= p_n then
      v_low := v_low + v_span;
    else
      v_after := v_after + v_n;
      v_high := v_low + v_span;
    end if;
  end loop;
  return v_high;
end $$;
comment on function pgrab_internal.nth_last_cron is
  'nth_last_fire() of a compiled cron expression, in seconds since 1970.';

create or replace function pgrab_internal.nth_last_fire(
  p_schedule text, p_timezone text, p_from timestamptz, p_until timestamptz, p_n integer) returns timestamptz
language plpgsql stable parallel safe as $$
declare
  c_cron constant bigint[] := pgrab_internal.schedule_compile(p_schedule);
  v_count bigint;
begin
  if c_cron[1] < 16 then
    return pg_catalog.to_timestamp(pgrab_internal.nth_last_cron(c_cron, p_timezone,
      pg_catalog.floor(pg_catalog.date_part('epoch', p_from))::bigint,
      pg_catalog.floor(pg_catalog.date_part('epoch', p_until))::bigint, p_n));
  end if;
  v_count := pg_catalog.floor(pg_catalog.date_part('epoch', p_until - p_from) / c_cron[2]);
  return case when v_count >= p_n
    then p_from + pg_catalog.make_interval(secs => c_cron[2] * (v_count - p_n + 1)) end;
end $$;
comment on function pgrab_internal.nth_last_fire is
  'The n-th last fire with from < fire <= until, n > 0. Null: there are fewer.';

create or replace function pgrab_internal.fires_some(p_schedule text, p_timezone text, p_from timestamptz,
  p_until timestamptz, p_calendar text, p_on_closed text, p_most bigint)
returns bigint
language sql stable
begin atomic
  select count(*)
  from (
    select from pgrab_internal.fires_on(p_schedule, p_timezone, p_from, p_until, p_calendar, p_on_closed)
    limit p_most) f;
end;
comment on function pgrab_internal.fires_some is
  'How many fires there are with from < fire <= until; does not count further than p_most.';

-- As nth_last_cron(), but fires are walked, so no stretch is walked further than it takes to know that it has
-- twice as many as are asked for.  Those of @every begin at a fire.
create or replace function pgrab_internal.nth_last_fire_on(
  p_schedule text, p_timezone text, p_from timestamptz, p_until timestamptz, p_n integer, p_calendar text,
  p_on_closed text)
returns timestamptz
language plpgsql stable as $$
declare
  c_cron constant bigint[] := pgrab_internal.schedule_compile(p_schedule);
  c_step constant interval := case when c_cron[1] >= 16 then make_interval(secs => c_cron[2]) end;
  v_span interval := greatest(c_step, '1 hour');
  v_low timestamptz := p_until;
  v_high timestamptz := p_until;
  v_middle timestamptz;
  v_n bigint := 0; -- fires from v_low to v_high, of which only so many were counted
  v_fires timestamptz[];
begin
  if p_calendar is null then
    return pgrab_internal.nth_last_fire(p_schedule, p_timezone, p_from, p_until, p_n);
  end if;
  while v_n < p_n loop
    if v_low <= p_from then
      return null;
    end if;
    p_n := p_n - v_n;
    v_high := v_low;
    v_low := greatest(p_from, coalesce(date_bin(c_step, v_high - v_span, p_from), v_high - v_span));
    v_n := pgrab_internal.fires_some(
      p_schedule, p_timezone, v_low, v_high, p_calendar, p_on_closed, 2 * p_n);
    v_span := 2 * v_span;
  end loop;
  while v_n >= 2 * p_n loop
    v_middle := v_low + (v_high - v_low) / 2;
    v_middle := coalesce(date_bin(c_step, v_middle, p_from), date_trunc('second', v_middle));
    exit when v_middle <= v_low;
    v_n := pgrab_internal.fires_some(
      p_schedule, p_timezone, v_middle, v_high, p_calendar, p_on_closed, 2 * p_n);
    if v_n >= p_n then
      v_low := v_middle;
    else
      v_high := v_middle;
      p_n := p_n - v_n;
      v_n := pgrab_internal.fires_some(
        p_schedule, p_timezone, v_low, v_high, p_calendar, p_on_closed, 2 * p_n);
    end if;
  end loop;
  v_fires := array(select f.f from pgrab_internal.fires_on(
    p_schedule, p_timezone, v_low, v_high, p_calendar, p_on_closed) f(f));
  return v_fires[cardinality(v_fires) - p_n + 1];
end $$;
comment on function pgrab_internal.nth_last_fire_on is
  'nth_last_fire() on the open days of a calendar (null: on all days).';

-- Grouped and unnested rather than joined, because the planner estimates a join of three parameter arrays
-- badly.
create or replace function pgrab_internal.next_fires(schedules text[], timezones text[], after timestamptz[],
  calendars text[] default null, closes text[] default null)
returns table (ord integer, fire timestamptz)
language sql stable parallel safe rows 1000 as $$
  select o.ord, g.fire
  from (
    select pg_catalog.array_agg(i.ord::integer) as ords, pgrab_internal.fire_next(
      pgrab_internal.schedule_compile(i.schedule), i.timezone, i.after, i.calendar, i.on_closed) as fire
    from rows from (pg_catalog.unnest($1), pg_catalog.unnest($2), pg_catalog.unnest($3),
        pg_catalog.unnest($4), pg_catalog.unnest($5)) with ordinality
      as i(schedule, timezone, after, calendar, on_closed, ord)
    group by i.schedule, i.timezone, i.after, i.calendar, i.on_closed) as g
  cross join lateral pg_catalog.unnest(g.ords) as o(ord)
$$;
comment on function pgrab_internal.next_fires is
  'next_fire() for many rows at once, given as arrays of equal length; ord is the place in them. Equal '
  '(schedule, timezone, after, calendar, on_closed) are worked out once, so a hundred thousand tasks that '
  'are due in the same second cost little more than their distinct schedules.';

create or replace function pgrab_internal.schedule_kind(schedule text) returns text
language sql immutable parallel safe
return case when $1 ~* '^[ \t]*@every[ \t]' then 'every' when $1 ~* '^[ \t]*@after[ \t]' then 'after'
  when $1 is not null then 'cron' end;
comment on function pgrab_internal.schedule_kind is
  '''every'' (fixed rate: the next fire counts from the last planned one), ''after'' (fixed delay: from the '
  'end of the last run) or ''cron''.';

create or replace function pgrab_internal.schedule_fault(
  p_schedule text, p_timezone text, out fault text, out hint text)
language plpgsql stable as $$
declare
  v_cron bigint[];
  v_local timestamp;
begin
  v_cron := pgrab_internal.schedule_compile(p_schedule);
  if p_timezone is null then
    fault := 'invalid timezone: null';
    hint := 'Use an IANA zone name such as UTC or Europe/Berlin.';
  elsif p_timezone <> 'UTC' then
    perform pgrab_internal.zone_check(p_timezone);
    v_local := pg_catalog.timezone(p_timezone, timestamptz 'epoch');
  end if;
exception when invalid_parameter_value then
  get stacked diagnostics fault = message_text, hint = pg_exception_hint;
  if hint = '' then
    fault := 'invalid timezone ' || pgrab_internal.schedule_quote(p_timezone)
      || ': there is no such time zone';
    hint := pgrab_internal.zone_hint(p_timezone);
  end if;
end $$;
comment on function pgrab_internal.schedule_fault is
  'What is wrong with a schedule or its time zone, and what would be right: (message, hint), both null when '
  'all is well. For a trigger that raises its own error. Not parallel safe: it catches the parser''s error, '
  'which takes a subtransaction.';

create or replace function pgrab_internal.schedule_check(schedule text, timezone text) returns void
language plpgsql stable as $$
declare
  v_fault record;
begin
  v_fault := pgrab_internal.schedule_fault(schedule_check.schedule, schedule_check.timezone);
  if v_fault.fault is not null then
    raise exception using errcode = '22023', message = v_fault.fault, hint = v_fault.hint;
  end if;
end $$;
comment on function pgrab_internal.schedule_check is
  'Refuses a schedule that cannot be read or can never fire, and a time zone that does not exist: SQLSTATE '
  '22023 with the value and a HINT. A null schedule (a task that runs once) is fine.';

create or replace function pgrab_tool.schedule_check(schedule text, timezone text default 'UTC') returns void
language sql stable
return pgrab_internal.schedule_check($1, $2);
comment on function pgrab_tool.schedule_check is
  'Refuses a schedule that cannot be read or can never fire, and a time zone that does not exist, with a '
  'HINT.';
