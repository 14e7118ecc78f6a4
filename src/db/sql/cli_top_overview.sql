-- Serves: pgrab top, every second: the cluster in one row.  Plan: of each lane and shard the twenty rows due
-- longest (task_due_idx), of those that wait under a limit twenty thousand (task_line_idx), so that a backlog
-- of a million costs no more than one of twenty thousand; where a count stopped there, its `_more` is true
-- and it is a lower bound. run_finished_idx, task_idle_idx: at most 20,000 rows each.
with seen as materialized (
  select 1 as part, h.lane, h.shard, t.status, t.due_at as since
  from pgrab_internal.due_heads() h
  cross join lateral (
    select t.status, t.due_at from pgrab.task t
    where t.lane = h.lane and t.shard = h.shard and t.due_at <= statement_timestamp()
    order by t.due_at limit 20) t
  union all
  (select 2, 0, 0, t.status, case when t.status = 'scheduled' then t.fire_at end
   from pgrab.task t where t.due_at is null and t.limit_key is not null and not t.paused
     order by t.limit_key, t.lane & 7, t.fire_at limit 20000)),
more as materialized (
  select exists (
    select from seen s group by s.part, s.lane, s.shard having count(*) = (array[20, 20000])[s.part]) as due)
select current_database() as database, statement_timestamp() as at,
  n.nodes, n.nodes_up, case when m.due then greatest(n.running, t.running) else t.running end as running,
  t.due, t.late, m.due as due_more, t.oldest_late, p.parked, p.parked_more,
  (select count(*) from (select from pgrab.failing limit 20000) f) as failing,
  (select count(*) from pgrab.overdue) as overdue,
  r.runs_1m, r.failures_1m, r.runs_1m_more, n.runs_total, n.failures_total
from more m,
  (select count(*) filter (where s.status = 'running') as running,
     count(*) filter (where s.status <> 'running') as due, count(*) filter (where s.late) as late,
     date_trunc('second', statement_timestamp() - min(s.since) filter (where s.late)) as oldest_late
   from (
     select s.status, s.since,
       s.status <> 'running' and s.since <= statement_timestamp() - interval '2 s' as late
     from seen s where s.since <= statement_timestamp()) s) t,
  (select count(*) as nodes, count(*) filter (where l.live and n.state = 'up') as nodes_up,
     coalesce(sum(n.running) filter (where l.live), 0) as running,
     coalesce(sum(n.runs_succeeded + n.runs_failed), 0) as runs_total,
     coalesce(sum(n.runs_failed), 0) as failures_total
   from pgrab.node n cross join lateral (select pgrab_internal.live(n) as live) l) n,
  (select count(*) filter (where t.status = 'parked') as parked, count(*) = 20000 as parked_more
   from (select t.status from pgrab.task t where t.due_at is null limit 20000) t) p,
  (select count(*) filter (where r.outcome not in ('skipped', 'missed')) as runs_1m,
     count(*) filter (where r.outcome in ('failed', 'timed_out', 'lost')) as failures_1m,
     count(*) = 20000 as runs_1m_more
   from (
     select r.outcome from pgrab.run r
     where r.finished_at > statement_timestamp() - interval '1 minute' limit 20000) r) r
