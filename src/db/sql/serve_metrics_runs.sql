-- Serves: GET /metrics.  The runs that have ended since the last call, by kind and outcome, in buckets.
-- $1 how far the last call came (null: this is the first, and only returns the time), $2 the kinds that have
-- a name in the metrics already, $3 how many more may get one: those with the most runs.  The rest are
-- (others).
-- Plan: run_finished_idx from there; at most 200,000 rows, the rest the next time.  A finish may be committed
-- a little later than its time says, so the last five seconds are left for the next call.
with until as materialized (
  select coalesce((
      select r.finished_at from pgrab.run r
      where r.finished_at > $1::timestamptz and r.finished_at <= statement_timestamp() - interval '5 s'
      order by r.finished_at offset 200000 limit 1),
    greatest(statement_timestamp() - interval '5 s', $1)) as at),
ended as materialized (
  select x.kind, x.outcome,
    width_bucket(x.took, '{0.005,0.01,0.05,0.1,0.5,1,5,10,60,300,3600}'::float8[]) as took,
    width_bucket(x.delay, '{0.005,0.01,0.05,0.1,0.5,1,5,10,60,300,3600}'::float8[]) as delay,
    count(*) as n, sum(x.took) as took_sum, sum(x.delay) as delay_sum,
    sum(x.cpu_seconds) as cpu_sum
  from until u cross join lateral (
    select r.kind, r.outcome, r.cpu_seconds,
      greatest(date_part('epoch', r.finished_at - coalesce(r.started_at, r.claimed_at)), 0) as took,
      case when r.attempt <= 1 then
        date_part('epoch', pgrab_tool.run_waited(r.fire_at, r.created_at, r.claimed_at, r.started_at))
          end as delay
    from pgrab.run r where r.finished_at > $1 and r.finished_at <= u.at) x
  group by 1, 2, 3, 4),
named as materialized (
  select k.kind from unnest($2::text[]) k(kind)
  union all
  (select e.kind from ended e where e.kind <> all ($2)
  group by e.kind order by sum(e.n) desc, e.kind limit $3::bigint))
select u.at, case when e.kind is null or k.kind is not null then e.kind else '(others)' end as kind,
  e.outcome, e.took, e.delay, sum(e.n)::bigint as n, sum(e.took_sum) as took_sum,
  sum(e.delay_sum) as delay_sum, sum(e.cpu_sum) as cpu_sum
from until u left join ended e on true left join named k on k.kind = e.kind
group by 1, 2, 3, 4, 5
order by bool_and(k.kind is null), 2
