-- Serves: pgrab nodes.  Those that are down come last.
select n.* from pgrab.nodes n order by n.state = 'down', n.name
