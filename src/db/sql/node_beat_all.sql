-- One heartbeat (node_beat.sql) that also reads all nodes that are not down (as node_list.sql), so that an
-- idle node needs no other statement.  A text of its own: what a plan can do is paid for whether it does it
-- or not.
-- Serves: heartbeat.  Plan: that of node_beat.sql; the others by one probe each, see pgrab.node.
:beat,
  l.*
from beat b left join lateral (
  select :node_columns from pgrab.node n where not n.down and n.state <> 'down') l on true
order by l.id
