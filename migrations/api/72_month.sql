-- A month of schedules, by the hour: pgrab.month().

-- Goes from one hour that has fires to the next, as fires_count() does.  @every keeps its distance.
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
comment on function pgrab_internal.fires_hourly is
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
  limit pgrab_internal.fires_left(t));
end;
comment on function pgrab_internal.month_one is
  'The coming fires of one task: of each hour the first, and how many there are.';

-- Tasks that fire together, because they have the same schedule and limit, are worked out once.  Were all
-- limits looked at, those of a thousand tenants would make a thousand schedules of one.
create or replace function pgrab_internal.month_tasks(
  p_until timestamptz, p_limit integer, p_names integer)
returns table (t pgrab_internal.task, times bigint, names text[], seconds float8, limited text, may bigint)
language sql stable
begin atomic
  with due as materialized (
    select d as t from pgrab_tool.due_first(p_until, '{scheduled,claimed,running}', p_limit) d),
  tight as materialized (
    select x.limit_key, 'limit ' || x.limit_key as limited, l.max_running as may
    from (
      select (d.t).limit_key as limit_key, count(*) as tasks from due d where (d.t).limit_key is not null
      group by 1 having count(*) > 1 order by 2 desc, 1 limit 20) x
      cross join lateral pgrab_internal.limit_of(x.limit_key) l
    where l.max_running between 1 and x.tasks - 1)
  select (array_agg(x.t))[1], count(*), (array_agg(x.name order by x.name))[1:p_names], x.seconds, x.limited,
    x.may
  from (
    select d.t, left(coalesce((d.t).name, (d.t).key, (d.t).id::text), 60) as name, (d.t).schedule,
      (d.t).timezone, (d.t).calendar, (d.t).on_closed, (d.t).kind, (d.t).slots,
      extract(epoch from pgrab_tool.usual((d.t).durations))::float8 as seconds,
      (d.t).due_at <= statement_timestamp() as late, l.limited, l.may,
      case when pgrab_internal.schedule_kind((d.t).schedule) = 'cron' and (d.t).attempt = 0
          and (d.t).jitter = '0' and num_nonnulls((d.t).max_runs, (d.t).ends_at) = 0
          and not pgrab_internal.under_way((d.t).status, (d.t).incarnation)
        then 0 else (d.t).id end as alone
    from due d left join tight l on l.limit_key = (d.t).limit_key) x
  group by x.alone, x.late, x.schedule, x.timezone, x.calendar, x.on_closed, x.kind, x.slots, x.seconds,
    x.limited, x.may;
end;
comment on function pgrab_internal.month_tasks is
  'What is due until then: one task for all that fire with it and take as long, how many these are, the '
  'first 60 characters of the names of p_names, and on which limit they can clash and how many may run, of '
  'the 20 limits with the most tasks.';

-- As many hours as the next day has, the others have about, too.  Of two days that is not worth a look.
create or replace function pgrab_internal.month_days(p_days integer, p_limit integer) returns integer
language sql stable
return case when p_days <= 2 then greatest(p_days, 1) else (
  select least(p_days, 62, greatest(p_limit / greatest(count(*), 1), 1))
  from pgrab_internal.month_tasks(statement_timestamp() + interval '1 day', p_limit / 4, 1) m
    cross join lateral pgrab_internal.month_one(m.t, statement_timestamp() + interval '1 day') f)
  end::integer;
comment on function pgrab_internal.month_days is
  'Of how many days the fires can be told, if of each schedule each hour counts once.';

create or replace function pgrab_internal.month_runs(
  p_until timestamptz, p_limit integer, p_names integer)
returns table (names text[], crew text, at timestamptz, until timestamptz, seconds float8, fires bigint,
  times bigint, limited text, may bigint, slots bigint)
language sql stable
begin atomic
  with fire as materialized (
    select m.names, (m.t).kind as kind, f.at, m.seconds, f.fires * m.times as fires, m.times, m.limited,
      m.may, (m.t).slots as slots
    from pgrab_internal.month_tasks(p_until, p_limit / 4, p_names) m
      cross join lateral pgrab_internal.month_one(m.t, p_until) f
    limit 2 * p_limit),
  crew as materialized (
    select x.kind, pgrab_internal.crew_for(x.kind) as crew from (select distinct f.kind from fire f) x)
  select f.names, c.crew, f.at, f.at + greatest(f.seconds, 0.001) * interval '1 s', f.seconds, f.fires,
    f.times, f.limited, f.may, f.slots
  from fire f join crew c on c.kind = f.kind;
end;
comment on function pgrab_internal.month_runs is
  'The first run of each schedule in each hour until then, for how many tasks it stands, how many fires '
  'that hour has, on which limit they can clash, and how many slots each takes.';

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
  used as materialized (
    select r.crew, r.at, r.until, r.times * r.slots as times from run r
    union all
    select r.limited, r.at, r.until, r.times from run r where r.limited is not null),
  peak as materialized ( -- a limit is told only if it is exceeded
    select distinct on (p.bucket) p.bucket as hour, p.crew, p.at, p.at_once, coalesce(s.slots, 0) as slots
    from pgrab_internal.load_at_once(
      (select array_agg(u.crew order by u.at, u.until) from used u),
      (select array_agg(u.at order by u.at, u.until) from used u),
      (select array_agg(u.until order by u.at, u.until) from used u),
      (select array_agg(u.times order by u.at, u.until) from used u),
      (select array_agg(b.hour order by b.hour) from bucket b), '1 hour') p
      left join (
        select c.crew, c.slots, false as bounds from pgrab_internal.scale_crews() c
        union all
        select distinct r.limited, r.may, true from run r where r.limited is not null) s on s.crew = p.crew
    where s.bounds is not true or p.at_once > s.slots
    order by p.bucket, coalesce(s.slots > 0 and p.at_once > s.slots, false) desc,
      p.at_once::float8 / greatest(coalesce(s.slots, 0), 0.5) desc, p.crew),
  beside as materialized ( -- also in the hours into which it reaches
    select r.crew, r.limited, r.names, r.times, r.at, r.until, h.hour
    from span s cross join run r
      cross join generate_series(r.hour, least(r.until, s.until), '1 hour') h(hour)),
  present as materialized ( -- at work when it is most, or else with the time at which they fire
    select x.hour, x.names, bool_or(x.at is null) as working, min(x.at) as at,
      sum(max(x.times)) over (partition by x.hour) as tasks,
      sum(cardinality(x.names)) over (partition by x.hour order by bool_or(x.at is null) desc, x.names
        rows unbounded preceding) - cardinality(x.names) as before
    from (
      select r.hour, r.names, r.times, null::timestamptz as at
      from beside r join peak p on p.hour = r.hour and p.crew in (r.crew, r.limited)
      where r.at <= p.at and r.until > p.at
      union all
      select r.hour, r.names, r.times, r.at from run r) x
    group by x.hour, x.names),
  named as materialized (
    select x.hour, string_agg(x.name || case when x.working then '' else
        to_char(timezone(p_timezone, x.at), ' (HH24:MI)') end, ', ' order by x.n) as names,
      max(x.tasks) - count(*) as more
    from (
      select r.hour, u.name, r.working, r.at, r.tasks,
        row_number() over (partition by r.hour order by r.working desc, u.name) as n
      from present r cross join unnest(r.names) u(name) where r.before < p_names) x
    where x.n <= p_names group by 1),
  shut as materialized (
    with recursive span_shut as (
      select row(b.*)::pgrab_internal.blackout as b, w.begins_at, w.ends_at, s.until, 1 as n
      from span s cross join pgrab.blackout b cross join lateral pgrab_internal.blackout_span(
        row(b.*)::pgrab_internal.blackout, s.since) w
      where w.begins_at < s.until
      union all
      select h.b, w.begins_at, w.ends_at, h.until, h.n + 1
      from span_shut h cross join lateral pgrab_internal.blackout_span(h.b, h.ends_at) w
      where w.begins_at < h.until and w.begins_at > h.begins_at and h.n < 1000)
    select (h.b).name, h.begins_at, h.ends_at from span_shut h)
  select timezone(p_timezone, b.hour)::date, extract(hour from timezone(p_timezone, b.hour))::integer, b.hour,
    coalesce(f.fires, 0), coalesce(f.tasks, 0), coalesce(f.unknown, 0), coalesce(f.seconds, 0),
    coalesce(nullif(p.crew, ''), 'workers'), coalesce(p.at_once, 0), coalesce(p.slots, 0), n.names,
    coalesce(greatest(n.more, 0), 0)::bigint,
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
  'most for, how many runs are at work at once and how many slots there are; or of a limit, if more would '
  'run than may. Whose runs these are, and the other tasks of that hour, each with the time of its fire, '
  'p_names of all, and how many more there are. More than the slots: schedules clash. blackouts: which the '
  'hour meets; the fires are not moved. Of a task that fires several times in an hour the first stands for '
  'all in at_once. There are fewer days if there is more to tell than p_limit permits, which counts each '
  'schedule once in each hour; complete is false if even so some tasks are left out.';
