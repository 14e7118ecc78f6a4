-- All nodes that are not down, for the observer and the strategies; and the database's clock.
-- Serves: heartbeat, before the first beat.
select (date_part('epoch', clock_timestamp()) * 1e6)::bigint as db_now,
  pgrab_internal.server_life() as life, :node_columns
from pgrab.node n where not n.down and n.state <> 'down' order by n.id
