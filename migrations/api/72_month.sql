-- A month of schedules, by the hour: pgrab.month().

-- Goes from one hour that has fires to the next, as fires_count() does.  @every keeps its distance.
create or replace function pgrab_internal.fire_before(
  p_cron bigint[], p_fire timestamptz, p_at timestamptz) returns timestamptz
language sql immutable parallel safe
return case when p_cron[1] >= 16 then p_fire + make_interval(secs => p_cron[2]
    * greatest(ceil(extract(epoch from p_at - p_fire) / p_cron[2]) - 1, 0)::double precision)
  else greatest(p_fire, p_at - interval '1 us') end;
comment on function pgrab_internal.fire_before(bigint[], timestamptz, timestamptz) is
  'An instant after which the next fire is the first one from p_at on.';

-- A cron expression is reduced to the first fire of each hour that matches.
create or replace function pgrab_internal.fires_hourly(p_schedule text, p_timezone text, p_fire timestamptz,
  p_until timestamptz, p_calendar text, p_on_closed text)
returns table (at timestamptz, fires bigint)
language plpgsql stable parallel safe rows 31 as $$
declare
  c_cron constant bigint[] := pgrab_internal.schedule_compile(p_schedule);
  c_every constant boolean := c_cron[1] >= 16;
  c_first constant bigint[] := case when c_every then c_cron
    else array[c_cron[1], c_cron[2] & -c_cron[2], c_cron[3] & -c_cron[3]] || c_cron[4:] end;
  c_full constant bigint := case when not c_every then pgrab_internal.hour_fires(c_cron, 3600) end;
  c_midnight constant timestamptz := timezone(p_timezone, date_trunc('day',
    timezone(p_timezone, statement_timestamp())));
  v_end timestamptz;
begin
  at := pgrab_internal.fire_next(c_cron, p_timezone,
    pgrab_internal.fire_before(c_cron, p_fire, statement_timestamp()), p_calendar, p_on_closed);
  fires := case when not c_every then c_full - pgrab_internal.hour_fires(c_cron,
    extract(epoch from timezone(p_timezone, at))::bigint % 3600) end;
  while at <= p_until loop
    v_end := date_bin('1 hour', at, c_midnight) + interval '1 hour';
    if c_every then
      fires := ceil(extract(epoch from v_end - at) / c_cron[2]);
    end if;
    return next;
    at := pgrab_internal.fire_next(c_first, p_timezone,
      case when c_every then pgrab_internal.fire_before(c_cron, at, v_end) else v_end - interval '1 us' end,
      p_calendar, p_on_closed);
    fires := c_full;
  end loop;
end $$;
comment on function pgrab_internal.fires_hourly(text, text, timestamptz, timestamptz, text, text) is
  'Of each hour in which a schedule fires, the first fire and how many there are. p_fire: one of its fires.';

create or replace function pgrab_internal.month_one(t pgrab_internal.task, p_until timestamptz)
returns table (at timestamptz, fires bigint)
language sql stable
begin atomic
  select greatest(t.due_at, statement_timestamp()), 1
  where not pgrab_internal.under_way(t.status, t.incarnation)
  union all
  (select f.at + pgrab_internal.jitter_of(t.id, t.jitter), f.fires
  from pgrab_internal.fires_hourly(t.schedule, t.timezone, t.fire_at, least(p_until, t.ends_at), t.calendar,
    t.on_closed) f
  where t.schedule is not null and pgrab_internal.schedule_kind(t.schedule) <> 'after'
  limit t.max_runs - t.fires
    - case when pgrab_internal.under_way(t.status, t.incarnation) then 0 else 1 end);
end;
comment on function pgrab_internal.month_one(pgrab_internal.task, timestamptz) is
  'The coming fires of one task: of each hour the first, and how many there are.';

-- Tasks that fire together, because they have the same schedule, are worked out once.
create or replace function pgrab_internal.month_tasks(
  p_until timestamptz, p_limit integer, p_names integer)
returns table (t pgrab_internal.task, times bigint, names text[], seconds float8)
language sql stable
begin atomic
  select (array_agg(x.t))[1], count(*), (array_agg(x.name order by x.name))[1:p_names], x.seconds
  from (
    select d as t, left(coalesce(d.name, d.key, d.id::text), 60) as name, d.schedule, d.timezone, d.calendar,
      d.on_closed, d.kind, extract(epoch from pgrab_tool.usual(d.durations))::float8 as seconds,
      d.due_at <= statement_timestamp() as late,
      case when pgrab_internal.schedule_kind(d.schedule) = 'cron' and d.attempt = 0 and d.jitter = '0'
          and num_nonnulls(d.max_runs, d.ends_at) = 0
          and not pgrab_internal.under_way(d.status, d.incarnation)
        then 0 else d.id end as alone
    from pgrab_tool.due_first(p_until, '{scheduled,claimed,running}', p_limit) d) x
  group by x.alone, x.late, x.schedule, x.timezone, x.calendar, x.on_closed, x.kind, x.seconds;
end;
comment on function pgrab_internal.month_tasks(timestamptz, integer, integer) is
  'What is due until then: one task for all that fire with it and take as long, how many these are, and the '
  'first 60 characters of the names of p_names.';

-- As many hours as the next day has, the others have about, too.  Of two days that is not worth a look.
create or replace function pgrab_internal.month_days(p_days integer, p_limit integer) returns integer
language sql stable
begin atomic
  select case when p_days <= 2 then greatest(p_days, 1) else (
    select least(p_days, 62, greatest(p_limit / greatest(count(*), 1), 1))
    from pgrab_internal.month_tasks(statement_timestamp() + interval '1 day', p_limit / 4, 1) m
      cross join lateral pgrab_internal.month_one(m.t, statement_timestamp() + interval '1 day') f)
    end::integer;
end;
comment on function pgrab_internal.month_days(integer, integer) is
  'Of how many days the fires can be told, if of each schedule each hour counts once.';

create or replace function pgrab_internal.month_runs(
  p_until timestamptz, p_limit integer, p_names integer)
returns table (names text[], crew text, at timestamptz, until timestamptz, seconds float8, fires bigint,
  times bigint)
language sql stable
begin atomic
  with fire as materialized (
    select m.names, (m.t).kind as kind, f.at, m.seconds, f.fires * m.times as fires, m.times
    from pgrab_internal.month_tasks(p_until, p_limit / 4, p_names) m
      cross join lateral pgrab_internal.month_one(m.t, p_until) f
    limit 2 * p_limit),
  crew as materialized (
    select x.kind, pgrab_internal.crew_for(x.kind) as crew from (select distinct f.kind from fire f) x)
  select f.names, c.crew, f.at, f.at + greatest(f.seconds, 0.001) * interval '1 s', f.seconds, f.fires,
    f.times
  from fire f join crew c on c.kind = f.kind;
end;
comment on function pgrab_internal.month_runs(timestamptz, integer, integer) is
  'The first run of each schedule in each hour until then, for how many tasks it stands, and how many fires '
  'that hour has.';

create or replace function pgrab_internal.month_shut(p_from timestamptz, p_until timestamptz)
returns table (name text, begins_at timestamptz, ends_at timestamptz)
language sql stable
begin atomic
  with recursive shut as (
    select row(b.*)::pgrab_internal.blackout as b, s.begins_at, s.ends_at, 1 as n
    from pgrab.blackout b cross join lateral pgrab_internal.blackout_span(
      row(b.*)::pgrab_internal.blackout, p_from) s
    where s.begins_at < p_until
    union all
    select h.b, s.begins_at, s.ends_at, h.n + 1
    from shut h cross join lateral pgrab_internal.blackout_span(h.b, h.ends_at) s
    where s.begins_at < p_until and s.begins_at > h.begins_at and h.n < 1000)
  select (h.b).name, h.begins_at, h.ends_at from shut h;
end;
comment on function pgrab_internal.month_shut(timestamptz, timestamptz) is 'The blackouts in a span of time.';

-- Our sessions (db/pg_session.c) do without joins of many rows with many.
create or replace function pgrab.month(
  p_timezone text default 'UTC', p_days integer default 31, p_limit integer default 10000,
  p_names integer default 20)
returns table (day date, hour integer, at timestamptz, fires bigint, tasks bigint, unknown bigint,
  work_seconds float8, crew text, at_once bigint, slots bigint, names text, more bigint, blackouts text,
  complete boolean)
language sql stable set enable_hashjoin = on set enable_sort = on set jit = off
begin atomic
  with span as materialized (
    select timezone(p_timezone, d.day) as since, d.most,
      timezone(p_timezone, d.day + make_interval(days => pgrab_internal.month_days(p_days, d.most))) as until
    from (
      select date_trunc('day', timezone(p_timezone, statement_timestamp())) as day,
        greatest(p_limit, 10) as most
      from pgrab_internal.zone_check(p_timezone)) d),
  run as materialized (
    select r.*, date_bin('1 hour', r.at, s.since) as hour
    from span s cross join lateral pgrab_internal.month_runs(s.until, s.most, p_names) r),
  bucket as materialized (
    select b.at as hour
    from span s cross join generate_series(s.since, s.until - interval '1 hour', '1 hour') b(at)),
  fired as materialized ( -- in the hour that has begun the next fire of a task has a row of its own
    select x.hour, sum(x.fires)::bigint as fires, sum(x.times)::bigint as tasks,
      coalesce(sum(x.unknown), 0)::bigint as unknown,
      round(coalesce(sum(x.seconds), 0)::numeric, 1)::float8 as seconds
    from (
      select r.hour, sum(r.fires) as fires, max(r.times) as times,
        sum(r.fires) filter (where r.seconds is null) as unknown, sum(r.fires * r.seconds) as seconds
      from run r group by r.hour, r.names[1]) x
    group by 1),
  peak as materialized (
    select distinct on (p.bucket) p.bucket as hour, p.crew, p.at, p.at_once, coalesce(s.slots, 0) as slots
    from pgrab_internal.load_at_once(
      (select array_agg(r.crew order by r.at, r.until) from run r),
      (select array_agg(r.at order by r.at, r.until) from run r),
      (select array_agg(r.until order by r.at, r.until) from run r),
      (select array_agg(r.times order by r.at, r.until) from run r),
      (select array_agg(b.hour order by b.hour) from bucket b), '1 hour') p
      left join pgrab_internal.scale_crews() s on s.crew = p.crew
    order by p.bucket, p.at_once::float8 / greatest(coalesce(s.slots, 0), 0.5) desc, p.crew),
  beside as materialized ( -- also in the hours into which it reaches
    select r.crew, r.names, r.at, r.until, h.hour
    from span s cross join run r
      cross join generate_series(r.hour, least(r.until, s.until), '1 hour') h(hour)),
  named as materialized (
    select x.hour, string_agg(x.name, ', ' order by x.name) as names, count(*) as names_told
    from (
      select p.hour, u.name, row_number() over (partition by p.hour order by u.name) as n
      from beside r join peak p on p.hour = r.hour and p.crew = r.crew cross join unnest(r.names) u(name)
      where r.at <= p.at and r.until > p.at) x
    where x.n <= p_names group by 1),
  shut as materialized (
    select h.* from span s cross join lateral pgrab_internal.month_shut(s.since, s.until) h)
  select timezone(p_timezone, b.hour)::date, extract(hour from timezone(p_timezone, b.hour))::integer, b.hour,
    coalesce(f.fires, 0), coalesce(f.tasks, 0), coalesce(f.unknown, 0), coalesce(f.seconds, 0),
    coalesce(nullif(p.crew, ''), 'workers'), coalesce(p.at_once, 0), coalesce(p.slots, 0), n.names,
    coalesce(greatest(p.at_once - n.names_told, 0), 0),
    (select string_agg(distinct h.name, ', ') from shut h
      where h.begins_at < b.hour + interval '1 hour' and h.ends_at > b.hour),
    (select count(*) < 2 * greatest(p_limit, 10) from run r) and (
      select coalesce(sum(x.times), 0) < greatest(p_limit, 10) / 4
      from (select distinct r.names, r.times from run r) x)
  from bucket b left join fired f on f.hour = b.hour left join peak p on p.hour = b.hour
    left join named n on n.hour = b.hour
  order by b.hour;
end;
comment on function pgrab.month(text, integer, integer, integer) is
  'The coming fires of some days, the first of which is today, by the hour of a time zone: how many there '
  'are, of how many tasks, and of how many no duration is known; the seconds of work; of the crew that it is '
  'most for, how many runs are at work at once and how many slots there are, whose runs these are, p_names '
  'of them, and how many more there are. More than the slots: schedules clash. blackouts: which of them the '
  'hour meets; the fires are not moved. Of a task that fires several times in an hour the first stands for '
  'all in at_once. There are fewer days if there is more to tell than p_limit permits, which counts each '
  'schedule once in each hour; complete is false if even so some tasks are left out.';
