-- Between two heartbeats: this node has nothing to do and wants to be told of new tasks.  Not a beat.
-- Serves: loader.  $1 node, $2 incarnation, $3 wanted.
update pgrab.node n set bell = $3::boolean where n.id = $1::bigint and n.incarnation = $2::bigint
  and n.bell <> $3::boolean
