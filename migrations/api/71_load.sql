-- What the coming fires will ask of the nodes: pgrab.load().

-- How many slots are in use at once, whenever that changes and where a bucket begins.  What ends then has
-- ended.
create or replace function pgrab_internal.load_at_once(
  p_crew text[], p_at timestamptz[], p_until timestamptz[], p_times bigint[], p_buckets timestamptz[],
  p_bucket interval)
returns table (crew text, bucket timestamptz, at timestamptz, at_once bigint)
language sql stable
begin atomic
  with change as (
    select r.crew, c.at, c.by
    from (
      select unnest(p_crew) as crew, unnest(p_at) as at, unnest(p_until) as until,
        unnest(coalesce(p_times, array_fill(1::bigint, array[coalesce(cardinality(p_crew), 0)]))) as times) r
      cross join lateral (values (r.at, r.times), (r.until, -r.times)) c(at, by)
    union all
    select r.crew, b.at, 0
    from (select distinct c.crew from unnest(p_crew) c(crew)) r cross join unnest(p_buckets) b(at)),
  level as (
    select c.crew, c.at,
      sum(c.by) over (partition by c.crew order by c.at, c.by rows unbounded preceding)::bigint as at_once
    from change c)
  select distinct on (l.crew, b.at) l.crew, b.at, l.at, l.at_once
  from level l join (select unnest(p_buckets) as at) b on b.at = date_bin(p_bucket, l.at, p_buckets[1])
  order by l.crew, b.at, l.at_once desc, l.at;
end;
comment on function pgrab_internal.load_at_once is
  'Of each bucket of time, by crew: when most slots are in use, and how many. p_times: how many each run '
  'takes (null: one).';

-- Our sessions (db/pg_session.c) do without joins of many rows with many.
create or replace function pgrab_internal.load_buckets(p_horizon interval, p_bucket interval, p_limit integer)
returns table (at timestamptz, crew text, fires bigint, unknown bigint, work_seconds float8, at_once bigint,
  slots bigint, peak_at timestamptz, tasks text)
language sql stable set enable_hashjoin = on set enable_sort = on set jit = off
begin atomic
  with fire as materialized (
    select f.task_id, f.name, f.kind, f.fire_at, extract(epoch from f.ends_at - f.fire_at)::float8 as seconds
    from pgrab.forecast(p_horizon, p_limit) f),
  crew as materialized (
    select x.kind, pgrab_internal.crew_for(x.kind) as crew from (select distinct f.kind from fire f) x),
  run as materialized ( -- if each begins at its time and takes as long as usual
    select coalesce(f.name, f.task_id::text) as name, c.crew, f.fire_at as at,
      f.fire_at + greatest(f.seconds, 0.001) * interval '1 s' as until, f.seconds,
      case when (select pgrab_internal.any_slots())
        then (select t.slots from pgrab.task t where t.id = any (array[f.task_id])) else 1 end as slots
    from fire f join crew c on c.kind = f.kind),
  span as materialized (
    select date_bin(p_bucket, statement_timestamp(), date_trunc('day', statement_timestamp())) as since,
      case when count(*) < p_limit then statement_timestamp() + p_horizon
        else max(r.at) - p_bucket end as until
    from run r),
  bucket as materialized (
    select array_agg(b.at order by b.at) as ats
    from span s cross join generate_series(s.since, greatest(s.until, s.since), p_bucket) b(at)),
  peak as materialized (
    select p.* from bucket b cross join lateral pgrab_internal.load_at_once(
      (select array_agg(r.crew order by r.at, r.until) from run r),
      (select array_agg(r.at order by r.at, r.until) from run r),
      (select array_agg(r.until order by r.at, r.until) from run r),
      (select array_agg(r.slots order by r.at, r.until) from run r), b.ats, p_bucket) p),
  fired as materialized (
    select r.crew, date_bin(p_bucket, r.at, b.ats[1]) as bucket, count(*) as fires,
      count(*) filter (where r.seconds is null) as unknown, sum(r.seconds) as seconds
    from run r cross join bucket b group by 1, 2)
  select p.bucket, coalesce(nullif(p.crew, ''), 'workers'), coalesce(f.fires, 0), coalesce(f.unknown, 0),
    round(coalesce(f.seconds, 0)::numeric, 1)::float8, p.at_once, coalesce(s.slots, 0),
    case when p.at_once > 0 then p.at end, t.names
  from peak p left join fired f on f.crew = p.crew and f.bucket = p.bucket
    left join pgrab_internal.scale_crews() s on s.crew = p.crew
    cross join lateral (
      select string_agg(n.name, ', ' order by n.runs desc, n.name) as names
      from (
        select r.name, count(*) as runs from run r
        where p.at_once > 0 and r.crew = p.crew and r.at <= p.at and r.until > p.at
        group by 1 order by 2 desc, 1 limit 5) n) t
  order by 1, 2;
end;
comment on function pgrab_internal.load_buckets is 'pgrab.load(), of buckets that were checked.';

create or replace function pgrab_internal.load_bucket(p_horizon interval, p_bucket interval) returns interval
language plpgsql immutable as $$
begin
  if p_bucket <= '0' or p_horizon <= '0' or extract(month from justify_days(p_bucket)) > 0
    or p_horizon / 1000 > p_bucket then
    raise exception using errcode = '22023',
      message = format('cannot tell the load of %s in buckets of %s', p_horizon, p_bucket),
      hint = 'Both are longer than nothing, a bucket is shorter than a month, and there are 1000 at most.';
  end if;
  return p_bucket;
end $$;
comment on function pgrab_internal.load_bucket is 'The bucket, or a refusal.';

create or replace function pgrab.load(
  p_horizon interval default '1 day', p_bucket interval default '1 hour', p_limit integer default 100000)
returns table (at timestamptz, crew text, fires bigint, unknown bigint, work_seconds float8, at_once bigint,
  slots bigint, peak_at timestamptz, tasks text)
language sql stable
begin atomic
  select * from pgrab_internal.load_buckets(
    p_horizon, pgrab_internal.load_bucket(p_horizon, p_bucket), p_limit);
end;
comment on function pgrab.load(interval, interval, integer) is
  'What the coming fires ask of the nodes, in buckets of time and for each crew: how many fires; how many of '
  'them of tasks of which no duration is known; the seconds of work that begin in it; how many slots are in '
  'use at once when it is most, if each begins at its time and takes as long as usual; how many slots the '
  'nodes have; when that moment is, and whose runs these are, five of them. More than the slots: schedules '
  'clash, and some begin late. Looks at p_limit fires at most; buckets beyond them are left out.';
