-- Serves: the overview.  How many fires of the last day were missed, and how many runs began more than a
-- minute late; of the last 10000 runs each.  Plan: run_failed_idx and run_finished_idx backwards.
select (
    select count(*)
    from (
      select x.outcome from pgrab.run x
      where x.outcome <> 'succeeded' and x.finished_at > statement_timestamp() - interval '1 day'
      order by x.finished_at desc limit 10000) f
    where f.outcome = 'missed') as missed, (
    select count(*)
    from (
      select x.attempt, x.fire_at, coalesce(x.started_at, x.claimed_at) as began from pgrab.run x
      where x.finished_at > statement_timestamp() - interval '1 day'
      order by x.finished_at desc limit 10000) r
    where r.attempt = 1 and r.began > r.fire_at + interval '1 minute') as late
