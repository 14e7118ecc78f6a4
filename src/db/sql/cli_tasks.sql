-- Serves: pgrab tasks.  Live tasks, the newest first, then finished ones, the latest first.
-- Plan: task_pkey backwards; held tasks by pgrab.hold, those that cannot run by task_idle_idx (conditions on
-- parameters alone are resolved at planning); run_finished_idx backwards.  Neither half reads pgrab.tasks,
-- which has no such order.  A name, key or kind is searched among the newest ten thousand, and if that is not
-- enough by task_name_idx, task_key_key, or the lanes of the kind (`few`).  A source is searched in all
-- tasks.
-- $1 status, $2 kind, $3 name, $4 key, $5 node, $6 source (null: all), $7 limit.
with recent as materialized (
  select t.id
  from (select x.* from pgrab.task x order by x.id desc limit 10000) t
  where t.status in ('waiting', 'scheduled', 'claimed', 'running', 'parked')
    and ($1::text is null or t.status = $1) and ($2::text is null or t.kind = $2)
    and ($3::text is null or t.name like $3) and ($4::text is null or t.key like $4)
    and ($6::text is null or t.source = $6)
    and ($5::text is null
      or t.node_id = (select n.id from pgrab.registration n where n.name = $5))
  order by t.id desc limit $7::bigint),
few as (
  select r.id from recent r where (select count(*) from recent) >= $7
  union all
  select x.id from pgrab.task x where x.name like $3 and (select count(*) from recent) < $7
  union all
  select x.id from pgrab.task x
  where $3 is null and x.key like $4 and ($4 ~ '[%_\\]' or x.key = $4) and (select count(*) from recent) < $7
  union all
  select k.id from pgrab_tool.of_kind($2) k(id)
  where num_nonnulls($3, $4) = 0 and (select count(*) from recent) < $7),
live as (
  select t.id, coalesce(t.name, t.key) as name, t.kind, t.status, t.attempt,
    date_trunc('second', t.due_at) as due_at,
    (select n.name from pgrab.registration n where n.id = t.node_id) as node,
    date_trunc('second', t.last_finished_at) as finished_at, pgrab_tool.usual(t.durations) as usual
  from pgrab.task t
  where t.status in ('waiting', 'scheduled', 'claimed', 'running', 'parked')
    and ($1::text is null or t.status = $1)
    and (num_nonnulls($2, $3, $4) = 0 or t.id = any (array(select f.id from few f)))
    and ($2 is null or t.kind = $2) and ($3 is null or t.name like $3) and ($4 is null or t.key like $4)
    and ($6::text is null or t.source = $6)
    and ($5::text is null
      or t.node_id = (select n.id from pgrab.registration n where n.name = $5))
    and (coalesce($1 not in ('parked', 'waiting'), true) or t.due_at is null)
    and (coalesce($1 not in ('claimed', 'running'), true) and $5 is null
      or t.id = any (array(select h.id from pgrab_tool.in_hand() h)))
  order by t.id desc limit $7::bigint),
ended as (
  select r.task_id as id, coalesce(r.name, r.key) as name, r.kind, r.ended, r.attempt, r.node, r.finished_at
  from pgrab.run r
  where r.ended is not null and $6 is null and (select count(*) from live) < $7
    and ($1 is null or r.ended = $1) and ($2 is null or r.kind = $2) and ($5 is null or r.node = $5)
    and ($3 is null or r.name like $3) and ($4 is null or r.key like $4)
  order by r.finished_at desc limit $7)
select a.id, a.name, a.kind, a.status, a.attempt, a.due_at, a.node, a.finished_at, a.usual
from (
  select l.*, 1 as part, null::timestamptz as ended_at from live l
  union all
  select e.id, e.name, e.kind, e.ended, e.attempt, null, e.node, date_trunc('second', e.finished_at),
    null, 2, e.finished_at
  from ended e) a
order by a.part, a.ended_at desc, a.id desc
limit $7
