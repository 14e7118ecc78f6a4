-- Serves: pgrab drain.  Raises when there is no such node.  $1 name.
select n.name, n.state, n.running || '/' || n.slots as busy, n.in_hand,
  date_trunc('second', n.heartbeat_at) as heartbeat_at
from pgrab.drain($1::text) n
