-- All nodes that are not down, for the observer and the strategies.
-- Serves: heartbeat, before the first beat.
select pgrab_internal.server_life() as life, :node_columns
from pgrab.node n where not n.down and n.state <> 'down' order by n.id
