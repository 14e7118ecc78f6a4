-- Serves: pgrab nodes.  Nodes that are down come last.  $1 name; null: all.
select v.*,
:nodes_also
where v.name = coalesce($1::text, v.name)
order by v.state = 'down', v.name
