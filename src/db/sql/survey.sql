-- In which shards of these lanes something is due soon: one step of an index scan from each shard that holds
-- a task to the next one, so that empty shards cost nothing.
-- Serves: loader, where there are too many lanes to look at all shards of all of them.
-- Plan: task_due_idx, a row for each step.
-- $1 what stands for the lanes in the index bytea[], $2 how far ahead (us), $3 how many steps: the lane where
-- they end may not be whole, and the lanes behind it are missing.
with now as materialized (
  select clock_timestamp() as at)
select p.no, count(*) as steps,
  string_agg(p.shard::text, ' ') filter (where p.due_at <= p.at + $2::bigint * interval '1 us') as shards
from (
  select l.no, h.shard, h.due_at, now.at
  from now cross join unnest($1::bytea[]) with ordinality l(lane, no) left join lateral (
    with recursive head as (
      (select pgrab.shard(t.id) as shard, t.due_at
      from pgrab.task t
      where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
        and t.due_at is not null and t.status = 'scheduled'
      order by pgrab.shard(t.id), t.due_at limit 1)
      union all
      select n.shard, n.due_at
      from head h cross join lateral (
        select pgrab.shard(t.id) as shard, t.due_at
        from pgrab.task t
        where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
          and pgrab.shard(t.id) > h.shard and t.due_at is not null and t.status = 'scheduled'
        order by pgrab.shard(t.id), t.due_at limit 1) n)
    select h.shard, h.due_at from head h) h on true
  limit $3::bigint) p
group by p.no order by p.no
