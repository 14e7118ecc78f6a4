-- Like look.sql, for lanes that have a backlog and whose tasks have a share_key: from one key to the next, of
-- each the first few that are due.
-- Serves: loader.  Plan: task_share_idx, a step for each key that it comes by, and of each key at most 128
-- rows, or as many as are wanted of it: from one of our shards on, another one in the next look.  (Nothing
-- says that share_key is equal to the key: task_due_idx would have the same order then, and read all keys.)
-- Parameters as of look.sql, but for each lane $2 the shard from which on to read smallint[], $3 how many
-- keys int[], $4 our shards bytea[], a bit each, $5 the key behind which to go on text[], $13 how many rows
-- of a key bigint[].  A key of which nothing was found has a row without id: the next look goes on behind it.
:look_said, t.share_key, t.lap = 1 as wrapped
from now
  cross join unnest($1::bigint[], $14::bytea[], $2::smallint[], $3::int[], $4::bytea[], $5::text[],
    $6::bigint[], $10::bigint[], $13::bigint[]) as l(lane, key, first, keys, own, after, ahead, wanted, slice)
  cross join lateral (
    select k.share_key, k.lap, t.*
    from (
      -- all keys behind `after`, and then, in the second lap, those up to it
      with recursive hop(share_key, lap) as (
        select l.after, 0
        union all
        select n.share_key, n.lap
        from hop h cross join lateral (
          (select t.share_key, h.lap from pgrab.task t
          where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.key and t.share_key > h.share_key
            and t.due_at <= now.at + l.ahead * interval '1 us' and t.status = 'scheduled'
          order by t.share_key limit 1)
          union all
          (select t.share_key, 1 from pgrab.task t
          where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.key and t.share_key is not null
            and h.lap = 0 and t.due_at <= now.at + l.ahead * interval '1 us' and t.status = 'scheduled'
          order by t.share_key limit 1)
          limit 1) n
        where n.lap = 0 or n.share_key <= l.after)
      select h.share_key, h.lap from hop h offset 1 limit l.keys) k
      left join lateral (
        select t.*
        from (
          (
:turns_read
            and (t.share_key, pgrab.shard(t.id)) >= (k.share_key, l.first) and t.share_key <= k.share_key
          order by t.share_key, pgrab.shard(t.id), t.due_at limit greatest(128, l.slice))
          union all
          (
:turns_read
            and (t.share_key, pgrab.shard(t.id)) < (k.share_key, l.first) and t.share_key >= k.share_key
          order by t.share_key, pgrab.shard(t.id), t.due_at limit greatest(128, l.slice))
          limit greatest(128, l.slice)) t
        where get_bit(l.own, t.shard) = 1
        limit l.slice) t on true
    limit l.wanted) t
where not (select c.paused from pgrab.cluster c)
