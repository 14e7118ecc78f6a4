-- A new incarnation: the first of its name, or in place of one that was seen to be down or silent.  Its first
-- beat has the number after the one that was seen, so that of two nodes that want a name only one gets it.
-- If the node was reported down, it is reported back; and the doorbell tells the others.
-- Serves: register, and registering again after a fence.  0 rows: another node was faster.
-- $1 name, $2 incarnation, $3 host, $4 pid, $5 version, $6 strategy, $7 weight, $8 labels, $9 kinds, $10
-- slots, $11 heartbeat us, $12 dead_after us, $13 incarnation it replaces (null: none expected), $14 its
-- beat, $15 owners besides its own role, $16 bounds, $17 users, $18 the life of the server in which it was
-- seen: if it was silent, then in that life, $19 the lowest band of priorities that it takes, $20 its
-- slots for kinds that are not the workers', $21 its workers, $22 its memory.
with said as materialized (
  select $1::text as name, $3::text as host, $4::int as pid, $5::text as version, $6::text as strategy,
    $7::double precision as weight, $8::jsonb as labels, $9::text[] as kinds,
    array[session_user::text] || $15::text[] as owners, $16::jsonb as bounds,
    $17::jsonb as users, $10::int as slots, $11::bigint * interval '1 us' as heartbeat_every,
    $12::bigint * interval '1 us' as dead_after, clock_timestamp() as at,
    ('{null,0,1,10,100}'::smallint[])[$19::int] as min_priority,
    $20::jsonb || jsonb_build_object('', $21::int) as room, $22::bigint as memory),
fresh as (
  insert into pgrab.registration (name, host, pid, pgrab_version, strategy, weight, labels, kinds, owners,
    bounds, users, slots, heartbeat_every, dead_after, started_at, min_priority, room, memory)
  select s.name, s.host, s.pid, s.version, s.strategy, s.weight, s.labels, s.kinds, s.owners,
    s.bounds, s.users, s.slots, s.heartbeat_every, s.dead_after, s.at, s.min_priority, s.room, s.memory
  from said s where $13::bigint is null
  on conflict (name) do nothing
  returning id),
last as materialized (
  select r.id, b.*
  from pgrab.registration r left join lateral (
    select x.* from pgrab.beat x where x.node_id = r.id order by x.beat desc limit 1) b on true
  where r.name = $1 and coalesce(b.incarnation, 0) = $13::bigint and coalesce(b.beat, 0) = $14::bigint
    and pgrab_internal.server_life() = $18::bigint),
beat as (
  insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state, counts)
  select l.id, coalesce(l.beat, 0) + 1, $2::bigint, s.at, 'up', coalesce(l.counts, '{}')
  from said s cross join last l
  on conflict do nothing
  returning node_id),
first as (
  insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state)
  select f.id, 1, $2::bigint, s.at, 'up' from said s cross join fresh f),
again as (
  update pgrab.registration r
  set host = s.host, pid = s.pid, pgrab_version = s.version, strategy = s.strategy, weight = s.weight,
    labels = s.labels, kinds = s.kinds, owners = s.owners, bounds = s.bounds, users = s.users,
    slots = s.slots, heartbeat_every = s.heartbeat_every, dead_after = s.dead_after, started_at = s.at,
    min_priority = s.min_priority, room = s.room, memory = s.memory, shards = null,
    overlapping = false, down = false
  from said s cross join beat b where r.id = b.node_id
  returning r.id)
select n.id
from (
  select f.id from fresh f
  union all
  select a.id from again a cross join lateral pgrab_internal.node_back(a.id)) n
  cross join lateral pg_notify('pgrab', 'joins ' || n.id)
