-- Serves: pgrab nodes.  Those that are down come last.  $1 name; null: all.
select v.*, array_to_string(n.kinds, ',') as kinds
from pgrab.nodes v join pgrab.node n on n.name = v.name
where v.name = coalesce($1::text, v.name)
order by v.state = 'down', v.name
