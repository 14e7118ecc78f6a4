-- Which shards this node reads from now on.  Only pgrab.ownership and pgrab.nodes read it: nodes work out by
-- themselves which of them owns what.
-- Serves: loader, at a change of the cluster and under every new incarnation.  Not a beat.  $1 node, $2
-- incarnation, $3 shards, $4 overlapping.
update pgrab.registration r set shards = $3::bit(1024), overlapping = $4::boolean
where r.id = $1::bigint and (r.shards, r.overlapping) is distinct from ($3::bit(1024), $4::boolean)
  and exists (
    select from pgrab.node n where n.id = $1::bigint and n.incarnation = $2::bigint and n.state <> 'down')
