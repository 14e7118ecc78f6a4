-- How the pools of handler processes of a node are, and the schemas of their kinds.  Serves: announcer.
-- $1 node, $2 pools, JSON.
select pgrab_internal.pools_announce($1::bigint, $2::jsonb)
