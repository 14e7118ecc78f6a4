-- Serves: pgrab drain --wait.  Has everything on this node ended?  (What a silent node holds goes on
-- until its dead_after.)  $1 node.
select n.state = 'down' or n.state = 'draining' and n.in_hand = 0
  or statement_timestamp() - n.heartbeat_at > n.dead_after as over,
  n.in_hand
from pgrab.node n where n.name = $1::text
