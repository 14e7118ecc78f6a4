-- Serves: pgrab nodes.  Nodes that are down come last.  $1 name; null: all.
select v.*, n.min_priority, array_to_string(n.kinds, ',') as kinds, (
    select string_agg(format('%s=%s', l.key, l.value), ',' order by l.key)
    from jsonb_each_text(n.labels) l) as labels, (
    select string_agg(format('%s %s/%s', p.name, p.up, p.processes), ', ' order by p.name)
    from pgrab.pool p where p.node_id = n.id) as handlers
from pgrab.nodes v join pgrab.node n on n.name = v.name
where v.name = coalesce($1::text, v.name)
order by v.state = 'down', v.name
