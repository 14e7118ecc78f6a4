-- Marks a node down that was silent for dead_after, unless it has sent a heartbeat since (then 0 rows): its
-- heartbeat and this statement insert the same next number, and only one of them goes through.  Ends the sql
-- backends of the node, which would otherwise continue without a lease, and inserts the alerts (pgrab.alert).
-- It was silent in one life of the server, so it is declared dead in that life or not at all.
-- Serves: recover.  $1 node, $2 incarnation, $3 the beat that was seen, $4 the life of the server.
with last as materialized (
  select b.* from pgrab.beat b where b.node_id = $1::bigint order by b.beat desc limit 1),
dead as (
  insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state, bell, counts)
  select l.node_id, l.beat + 1, l.incarnation, l.heartbeat_at, 'down', false, l.counts
  from last l where l.incarnation = $2::bigint and l.beat = $3::bigint and l.state <> 'down'
    and pgrab_internal.server_life() = $4::bigint
  on conflict do nothing
  returning node_id, incarnation, heartbeat_at),
away as (
  update pgrab.registration r set down = true
  where r.id in (
    select x.id from pgrab.registration x join dead d on d.node_id = x.id for update of x skip locked))
select d.incarnation, e.ended, pgrab_internal.node_died(d.node_id, d.heartbeat_at,
  'no heartbeat since ' || date_trunc('second', d.heartbeat_at))
from dead d cross join lateral pgrab_internal.end_sql_backends(array['pgrab sql ' || d.incarnation]) e
