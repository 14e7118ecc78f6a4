-- What this incarnation holds according to the database, for long enough that no reply can still be under
-- way: what the node does not know of is a leak.  Serves: recover (leak repair).  $1 incarnation, $2 older
-- than (us).
select t.id, t.version, t.status
from pgrab_internal.held($1::bigint) t
where greatest(t.claimed_at, t.started_at) < clock_timestamp() - $2::bigint * interval '1 us'
