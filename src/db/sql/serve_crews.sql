-- Serves: the overview.  How many runs each crew of each node has, and can have at once.
select n.name as node, coalesce(nullif(c.key, ''), 'workers') as crew, (c.value ->> 0)::bigint as running,
  (c.value ->> 1)::bigint as slots
from pgrab.node n
  cross join lateral jsonb_each(coalesce(n.crews, jsonb_build_object('', array[n.running, n.slots]))) c
where n.state <> 'down'
order by n.name, c.key
limit 100
