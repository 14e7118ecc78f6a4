-- What is due soon and free, in the lanes that this node may run and the shards asked for.  Reads only; the claim
-- that follows is the decision.  Serves: loader.
-- Plan: one index scan of task_due_idx for each pair of lane and shard, stopped by the limits; with a backlog a lane
-- ends after a few shards, which is why the caller turns the list of shards round at every look.  What this node
-- may not run stands in other lanes and is not read.  Kind, labels and delivery are asked all the same: the number of
-- a lane is a hash.
-- $1 lanes int[], $2 where the shards of each begin, $3 and end, in $4 shards smallint[] and $5 the lowest due to look
-- at in each (us since 1970, null: any; dead entries pile up at the head of the index when an old snapshot is held),
-- $6 how far ahead (us; negative: overdue by so much), $7 kinds text[], $8 labels jsonb, $9 may this node run
-- at_most_once tasks, $10 rows wanted of each lane.
with now as materialized (
  select clock_timestamp() as at, clock_timestamp() + $6::bigint * interval '1 us' as horizon)
select t.id, t.version, t.shard, t.lane, t.priority,
  (date_part('epoch', now.at - t.due_at) * 1e6)::bigint as overdue_us,
  (date_part('epoch', t.due_at) * 1e6)::bigint as due_us, t.require <> '{}' as has_require,
  t.attempt = 0 and not t.settled and (t.schedule is not null or t.misfire = 'skip')
    and t.due_at < now.at - t.misfire_after as misfired
from now
  cross join unnest($1::int[], $2::int[], $3::int[]) as l(lane, first, last)
  cross join lateral (
    select t.*
    from unnest(($4::smallint[])[l.first : l.last], ($5::bigint[])[l.first : l.last]) as s(shard, mark)
      cross join lateral (
        select t.id, t.version, t.shard, t.lane, t.due_at, t.require, t.attempt, t.settled, t.schedule, t.misfire,
          t.misfire_after, t.priority
        from pgrab.task t
        where t.lane = l.lane and t.shard = s.shard and t.due_at <= now.horizon
          and t.due_at >= coalesce(timestamptz 'epoch' + s.mark * interval '1 us', '-infinity')
          and t.status = 'scheduled' and t.kind = any ($7::text[])
          and (t.require = '{}' or $8::jsonb @> t.require) and (t.delivery <> 'at_most_once' or $9::boolean)
        order by t.due_at
        limit 128) t
    limit $10::bigint) t
where not (select c.paused from pgrab.cluster c)
