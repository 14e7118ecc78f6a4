-- Will the load fit?  When more runs will be at work than can be, and how late that makes them:
-- pgrab.congestion().

-- A run takes one slot for as long as it usually takes.  A task that fires several times in an hour takes a
-- part of one for the rest of that hour.
create or replace function pgrab_internal.congestion_runs(p_until timestamptz, p_limit integer)
returns table (names text[], times bigint, crew text, at timestamptz, until timestamptz, rate float8,
  limited text, may bigint)
language sql stable
begin atomic
  select r.names, r.times, r.crew, r.at, case when r.fires > r.times then e.at else r.until end,
    case when r.fires > r.times
      then least(r.fires * r.seconds / extract(epoch from e.at - r.at), r.times)::float8 else r.times end,
    r.limited, r.may
  from pgrab_internal.month_runs(p_until, p_limit, 5) r cross join lateral (
    select date_bin('1 hour', r.at, 'epoch') + interval '1 hour' as at) e
  where r.seconds > 0
  union all
  select null, 1, c.crew, statement_timestamp(), h.until, 1,
    case when l.max_running > 0 then 'limit ' || h.limit_key end, l.max_running
  from (
    select t.kind, t.limit_key, t.started_at + pgrab_tool.usual(t.durations) as until
    from pgrab_tool.in_hand() t where t.status = 'running' limit 10000) h
    left join lateral pgrab_internal.limit_of(h.limit_key) l on true
    cross join lateral (select pgrab_internal.crew_for(h.kind) as crew offset 0) c
  where h.until > statement_timestamp();
end;
comment on function pgrab_internal.congestion_runs is
  'The coming runs, and those in progress: how many slots they take, and from when until when. names: null: '
  'it runs already.';

-- What is too much waits, and is worked off when there is room again: the sum of what was too much, less its
-- lowest point so far.
create or replace function pgrab_internal.congestion_levels(p_crew text[], p_at timestamptz[],
  p_until timestamptz[], p_rate float8[], p_slots bigint[])
returns table (crew text, slots bigint, at timestamptz, over_at timestamptz, before float8, after float8,
  left_over float8)
language sql stable
begin atomic
  with change as (
    select u.crew, u.slots, c.at, sum(c.by) as by,
      sum(greatest(c.by, 0) * extract(epoch from u.until - u.at)::float8) as work
    from unnest(p_crew, p_at, p_until, p_rate, p_slots) u(crew, at, until, rate, slots)
      cross join lateral (values (u.at, u.rate), (u.until, -u.rate)) c(at, by)
    group by 1, 2, 3),
  level as (
    select c.*, lead(c.at) over w as next_at, sum(c.by) over w as level, sum(c.work) over w as came
    from change c
    window w as (partition by c.crew order by c.at)),
  total as (
    select l.*, sum((l.level - l.slots) * extract(epoch from l.next_at - l.at)::float8)
      over w as total,
      coalesce(sum(l.level * extract(epoch from l.next_at - l.at)::float8) over (w
        rows between unbounded preceding and 1 preceding), 0) as gone
    from level l
    window w as (partition by l.crew order by l.at)),
  wait as ( -- the last change leaves nothing to come
    select t.*, case when t.next_at is null then 0
      else t.total - least(0, min(t.total) over (partition by t.crew order by t.at)) end as after
    from total t),
  both_ends as (
    select w.*, lag(w.after, 1, 0::float8) over (partition by w.crew order by w.at) as before from wait w)
  select b.crew, b.slots, b.at, case when b.after > 1 then b.next_at
      else b.at + b.before / greatest(b.slots - b.level, 0.001) * interval '1 s' end, b.before, b.after,
    b.before + b.came - b.gone
  from both_ends b where b.before > 1 or b.after > 1;
end;
comment on function pgrab_internal.congestion_levels is
  'Spans of time in which runs of a crew wait for a slot: how many seconds of work wait when one begins and '
  'when it ends; and how much there is to do when it begins, with what runs.';

-- Our sessions (db/pg_session.c) do without joins of many rows with many.
create or replace function pgrab.congestion(p_horizon interval default '1 day', p_limit integer default 10000)
returns table (begins_at timestamptz, ends_at timestamptz, crew text, slots bigint, late_by interval,
  worst_at timestamptz, names text, more bigint)
language sql stable set enable_hashjoin = on set enable_sort = on set jit = off
begin atomic
  with run as materialized (
    select r.*
    from pgrab_internal.congestion_runs(
      statement_timestamp() + least(p_horizon, '62 days'), greatest(p_limit, 10)) r),
  used as materialized (
    select r.crew, r.at, r.until, r.rate, s.slots, r.names, r.times
    from run r join pgrab_internal.scale_crews() s on s.crew = r.crew where s.slots > 0
    union all
    select r.limited, r.at, r.until, r.rate, r.may, r.names, r.times from run r where r.limited is not null),
  span as materialized (
    select l.*, sum((l.before <= 1)::integer) over (partition by l.crew order by l.at) as no
    from pgrab_internal.congestion_levels(
      (select array_agg(u.crew order by u.crew, u.at) from used u),
      (select array_agg(u.at order by u.crew, u.at) from used u),
      (select array_agg(u.until order by u.crew, u.at) from used u),
      (select array_agg(u.rate order by u.crew, u.at) from used u),
      (select array_agg(u.slots order by u.crew, u.at) from used u)) l),
  jam as materialized (
    select s.crew, s.no, min(s.at) as begins_at, max(s.over_at) as ends_at, max(s.slots) as slots,
      max(greatest(s.before, s.after)) as work,
      (array_agg(s.over_at order by s.after desc, s.at))[1] as worst_at
    from span s group by 1, 2
    having max(greatest(s.before, s.after)) >= 60 * max(s.slots)
    order by 3, 1 limit 20),
  hit as materialized ( -- who begins in it, and how late at most
    select j.crew, j.no, u.names, max(u.times) as times,
      max(greatest(s.before / j.slots, s.after / j.slots, case when j.slots = 1 -- all others are before it
        then s.left_over - least(u.rate, 1) * extract(epoch from u.until - u.at)::float8 end)) as late
    from jam j join span s on s.crew = j.crew and s.no = j.no
      join used u on u.crew = s.crew and u.at = s.at and u.names is not null
    group by 1, 2, 3),
  named as (
    select x.crew, x.no,
      string_agg(format('%s (%s)', x.name, to_char(x.late * interval '1 s', 'HH24:MI')),
        ', ' order by x.n) filter (where x.n <= 5) as names,
      max(x.tasks) - least(count(*), 5) as more, max(x.late) as late
    from (
      select h.crew, h.no, n.name, h.late,
        sum(h.times / cardinality(h.names)::float8) over (partition by h.crew, h.no) as tasks,
        row_number() over (partition by h.crew, h.no order by h.late desc, n.name) as n
      from hit h cross join unnest(h.names) n(name)) x
    group by 1, 2)
  select date_trunc('second', j.begins_at), date_trunc('second', j.ends_at),
    coalesce(nullif(j.crew, ''), 'workers'), j.slots,
    date_trunc('second', greatest(j.work / j.slots, n.late) * interval '1 s'),
    date_trunc('second', j.worst_at), n.names, coalesce(n.more, 0)::bigint
  from jam j left join named n on n.crew = j.crew and n.no = j.no
  order by 1, 3;
end;
comment on function pgrab.congestion(interval, integer) is
  'When the coming fires ask for more than the slots of a crew of the nodes, or than a limit allows, so that '
  'runs begin at least a minute late, if each takes as long as usual: from when until when all is worked '
  'off; how late runs begin when it is worst, and when that is; who begins in it, five of them and how late '
  'at most, and how many more. Twenty times, the soonest first. What blackouts '
  'move counts at its own time. p_limit as in pgrab.month().';
