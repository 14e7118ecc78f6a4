-- Everybody who is not down, for the observer and the strategies.
-- Serves: heartbeat; answers the database's clock as well.  Labels come as netstrings (key, value, ...).
select n.id, n.name, n.incarnation, n.beat, n.weight, n.slots, n.in_hand, n.state, pgrab.args_list(n.labels),
  (date_part('epoch', n.heartbeat_every) * 1e6)::bigint, (date_part('epoch', n.dead_after) * 1e6)::bigint,
  (date_part('epoch', clock_timestamp()) * 1e6)::bigint as db_now
from pgrab.node n where n.state <> 'down' order by n.id
