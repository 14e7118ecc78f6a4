-- Serves: pgrab drain --wait.  Does nothing run there any more?  $1 node.
select n.state = 'down' or n.state = 'draining' and n.in_hand = 0 or not n.live as over,
  n.in_hand
from pgrab.node n where n.name = $1::text
