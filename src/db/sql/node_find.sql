-- Who has this name now?  Serves: register.  $1 name.
select n.id, n.incarnation, n.beat, n.state, n.host, n.pid, (date_part('epoch', n.dead_after) * 1e6)::bigint,
  coalesce(n.server_life, 0), pgrab_internal.server_life()
  from pgrab.node n where n.name = $1
