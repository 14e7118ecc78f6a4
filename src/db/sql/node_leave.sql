-- The last word of a node that stopped in good order.  Serves: heartbeat.  $1 node, $2 incarnation.
with pools as (
  delete from pgrab.pool p using pgrab.node n
  where p.node_id = $1::bigint and n.id = $1::bigint and n.incarnation = $2::bigint)
update pgrab.node n set state = 'down', bell = false, in_hand = 0, running = 0, beat = n.beat + 1,
  heartbeat_at = clock_timestamp()
where n.id = $1::bigint and n.incarnation = $2::bigint and n.state <> 'down'
