-- Serves: the overview.  How many fires of the last day were missed, and how many runs began more than a
-- minute late: of the last 10000 runs each, and since when that is, if it is less than the day.
-- Plan: run_failed_idx and run_finished_idx backwards.
select f.missed, r.late, to_char(greatest(f.since, r.since), 'HH24:MI') as since
from (
    select count(*) filter (where x.outcome = 'missed') as missed,
      case when count(*) = 10000 then min(x.finished_at) end as since
    from (
      select y.outcome, y.finished_at from pgrab.run y
      where y.outcome <> 'succeeded' and y.finished_at > statement_timestamp() - interval '1 day'
      order by y.finished_at desc limit 10000) x) f
  cross join (
    select count(*) filter (where :began_late) as late,
      case when count(*) = 10000 then min(r.finished_at) end as since
    from (
      select y.task_id, y.attempt, y.fire_at, y.created_at, y.finished_at,
        coalesce(y.started_at, y.claimed_at) as began
      from pgrab.run y where y.finished_at > statement_timestamp() - interval '1 day'
      order by y.finished_at desc limit 10000) r) r
