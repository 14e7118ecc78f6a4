-- The state of a node's pools of handler processes, and the schemas of their kinds.  Serves: announcer.
-- $1 node, $2 pools, JSON.
select pgrab_internal.pools_announce($1::bigint, $2::jsonb)
