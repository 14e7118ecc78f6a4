-- Between two heartbeats: this node has nothing to do and wants to be told of new tasks.  Not a beat.  If a
-- beat replaces the row meanwhile, that beat says it, or the next look writes it again.
-- Serves: loader.
-- Plan: beat_pkey from the end.  $1 node, $2 incarnation, $3 wanted.
update pgrab.beat b set bell = $3::boolean
where b.node_id = $1::bigint and b.incarnation = $2::bigint and b.bell <> $3::boolean
  and b.beat = (
    select x.beat from pgrab.beat x where x.node_id = $1::bigint order by x.beat desc limit 1)
