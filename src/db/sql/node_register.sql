-- A new incarnation: the first of its name, or in place of one that was seen to be down or silent (the
-- incarnation and beat that were seen must still stand).
-- Serves: register, and the new beginning after a fence.  0 rows: somebody else was faster.
-- $1 name, $2 incarnation, $3 host, $4 pid, $5 version, $6 strategy, $7 weight, $8 labels, $9 kinds, $10
-- slots, $11 heartbeat us, $12 dead_after us, $13 incarnation it replaces (null: none expected), $14 its
-- beat, $15 owners besides its own role, $16 bounds.
insert into pgrab.node as n (name, incarnation, host, pid, pgrab_version, strategy, weight, labels, kinds,
  owners, bounds, slots, heartbeat_every, dead_after, started_at, state, heartbeat_at)
values ($1, $2::bigint, $3, $4::int, $5, $6, $7::double precision, $8::jsonb, $9::text[],
  array[session_user::text] || $15::text[], $16::jsonb, $10::int,
  $11::bigint * interval '1 us', $12::bigint * interval '1 us', clock_timestamp(), 'up', clock_timestamp())
on conflict (name) do update
set incarnation = excluded.incarnation, host = excluded.host, pid = excluded.pid,
  pgrab_version = excluded.pgrab_version, strategy = excluded.strategy, weight = excluded.weight,
  labels = excluded.labels, kinds = excluded.kinds, owners = excluded.owners,
  bounds = excluded.bounds, slots = excluded.slots,
  heartbeat_every = excluded.heartbeat_every, dead_after = excluded.dead_after,
  started_at = excluded.started_at, state = 'up', bell = true, heartbeat_at = excluded.heartbeat_at,
  beat = n.beat + 1, in_hand = 0, running = 0, shards = null, overlapping = false
where n.incarnation = $13::bigint and n.beat = $14::bigint
returning n.id
