-- A node that was seen silent for dead_after is marked down, unless it has beaten since (then 0 rows).  This
-- row lock is where a zombie's heartbeat and its peers meet: only one of them goes through.  Its sql backends
-- are ended, for they would work on with nobody to fence them.
-- Serves: recover.  $1 node, $2 incarnation, $3 the beat that was seen.
with dead as (
  update pgrab.node n set state = 'down', in_hand = 0, running = 0, bell = false
  where n.id = $1::bigint and n.incarnation = $2::bigint and n.beat = $3::bigint and n.state <> 'down'
  returning n.incarnation)
select d.incarnation, e.ended from dead d cross
  join lateral pgrab_internal.end_sql_backends(array['pgrab sql ' || d.incarnation]) e
