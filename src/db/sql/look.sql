-- What is due soon and free, in the shards asked for.  Reads only; the claim that follows is the decision.
-- Serves: loader.  Plan of the second half (priority 0, nearly everything): one index scan of task_due_idx per shard, stopped by the limits; with a backlog the scan ends after a
-- few shards, which is why the caller turns the list of shards round at every look.  Plan of the first half: one probe of task_lane_idx per priority in use (one altogether
-- when there is none), then the head of each lane; the best of the heads are the best of all, because within a lane the longest waiting is first.
-- The shard of a row is compared as (shard + 0): as a condition of the index it would be a scan per shard again.
-- $1 shards smallint[], $2 lowest due to look at per shard timestamptz[] (the low-water mark: dead entries pile up at the head of the index when
-- an old snapshot is held), $3 how far ahead (us; negative: overdue by so much), $4 kinds text[], $5 labels jsonb, $6 may this node run at_most_once tasks, $7 rows wanted of each half,
-- $8 what one priority is worth in waiting (us).
with recursive now as materialized (
  select clock_timestamp() as at, clock_timestamp() + $3::bigint * interval '1 us' as horizon),
lane(priority) as (
  (select t.priority from pgrab.task t where t.due_at is not null and t.priority <> 0 order by t.priority limit 1)
  union all
  select (select t.priority from pgrab.task t where t.due_at is not null and t.priority <> 0 and t.priority > l.priority order by t.priority limit 1) from lane l where l.priority is not null)
select t.id, t.version, t.shard, t.priority, (date_part('epoch', now.at - t.due_at) * 1e6)::bigint as overdue_us, t.due_at::text as due_at, t.require <> '{}' as has_require,
  t.attempt = 0 and (t.schedule is not null or t.misfire = 'skip') and t.due_at < now.at - t.misfire_after as misfired
from now cross join lateral (
  (select h.* from lane l
   cross join lateral (
     select t.id, t.version, t.shard, t.priority, t.due_at, t.require, t.attempt, t.schedule, t.misfire, t.misfire_after
     from pgrab.task t
     where t.priority = l.priority and t.priority <> 0 and t.due_at <= now.horizon and (t.shard + 0) = any ($1::smallint[])
       and t.status = 'scheduled' and t.kind = any ($4::text[])
       and (t.require = '{}' or $5::jsonb @> t.require)
       and (t.delivery <> 'at_most_once' or $6::boolean)
     order by t.due_at
     limit $7::bigint) h
   order by h.due_at - h.priority * ($8::bigint * interval '1 us')
   limit $7::bigint)
  union all
  (select t.*
   from unnest($1::smallint[], $2::timestamptz[]) as s(shard, mark)
   cross join lateral (
     select t.id, t.version, t.shard, t.priority, t.due_at, t.require, t.attempt, t.schedule, t.misfire, t.misfire_after
     from pgrab.task t
     where t.shard = s.shard and t.priority = 0 and t.due_at >= s.mark and t.due_at <= now.horizon
       and t.status = 'scheduled' and t.kind = any ($4::text[])
       and (t.require = '{}' or $5::jsonb @> t.require)
       and (t.delivery <> 'at_most_once' or $6::boolean)
     order by t.due_at
     limit 128) t
   limit $7::bigint)) t
