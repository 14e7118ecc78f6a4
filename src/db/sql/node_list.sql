-- Everybody who is not down, for the observer and the strategies.
-- Serves: heartbeat; answers the database's clock as well.  Labels come as netstrings (key, value, ...).  Not by pgrab_internal.args_list(): they are flat, and where
-- a pooler leaves JIT on, that costs 15 ms a node, which with 200 nodes is more than a heartbeat may take.
select n.id, n.name, n.incarnation, n.beat, n.weight, n.slots, n.in_hand, n.state,
  (select string_agg(octet_length(convert_to(l.key, 'UTF8')) || ':' || l.key || ',' || octet_length(convert_to(l.value, 'UTF8')) || ':' || l.value || ',', '' order by l.key)
   from jsonb_each_text(n.labels) l where l.value is not null) as labels,
  (date_part('epoch', n.heartbeat_every) * 1e6)::bigint, (date_part('epoch', n.dead_after) * 1e6)::bigint,
  (date_part('epoch', clock_timestamp()) * 1e6)::bigint as db_now
from pgrab.node n where n.state <> 'down' order by n.id
