-- Serves: pgrab drain --wait.  Has everything on this node ended?  $1 node.
select n.state = 'down' or n.state = 'draining' and n.in_hand = 0 or not n.live as over,
  n.in_hand
from pgrab.node n where n.name = $1::text
