-- Serves: GET /api/v1/rates, the overview.  How many runs ended, failed and waited in each 60th of the time
-- until now.  Of each the first 100 are read; when there were more, how soon they came says how many.
-- Plan: run_finished_idx, 60 times at most 100 rows.  $1 how long ago it begins.
with part as (
  select f.until - (60 - p.no) * f.step as at, f.step
  from (select statement_timestamp() as until, $1::interval / 60 as step) f
    cross join generate_series(0, 59) p(no))
select date_trunc('second', p.at) as at,
  round((r.runs / s.seconds)::numeric, 3) as per_second,
  round((r.failed / s.seconds)::numeric, 3) as failed_per_second,
  round(r.waited::numeric, 1) as waited_p95, round(r.seconds::numeric, 3) as seconds_p50
from part p cross join lateral (
  select count(*) as runs, count(*) filter (where pgrab_tool.run_is_failure(x.outcome)) as failed,
    max(x.finished_at) as last, percentile_cont(0.95) within group (
      order by extract(epoch from
        pgrab_tool.run_waited(x.fire_at, x.created_at, x.claimed_at, x.started_at)))
      filter (where x.attempt = 1) as waited,
    percentile_cont(0.5) within group (order by extract(epoch from x.finished_at - x.started_at)) as seconds
  from (
    select y.* from pgrab.run y where y.finished_at >= p.at and y.finished_at < p.at + p.step
    order by y.finished_at limit 100) x) r
  cross join lateral (
    select greatest(extract(epoch from case when r.runs < 100 then p.step else r.last - p.at end), 0.001)
      as seconds) s
order by p.at
