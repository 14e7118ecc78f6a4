-- How many nodes are up, and how many microseconds the least patient can do without an answer (null: none).
-- Its lease is two thirds of its dead_after, or a little less, and the last heartbeat may be a while ago.
-- Serves: db/migrate_nodes.c.  Reads the tables, because the view is of an older version, or gone.
select count(*), (extract(epoch from min(r.dead_after) / 3) * 1000000)::bigint
from pgrab.registration r cross join lateral (
  select x.* from pgrab.beat x where x.node_id = r.id order by x.beat desc limit 1) b
where not r.down and b.state <> 'down' and b.heartbeat_at > clock_timestamp() - r.dead_after
