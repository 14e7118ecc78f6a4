-- What this incarnation holds according to the database, and has held for so long that no reply can still be
-- on its way: what the node does not know of is a leak.  Serves: recover (leak repair).  $1 incarnation, $2
-- held for (us).
select t.id, t.version, t.status
from pgrab_internal.held($1::bigint) t
where greatest(t.claimed_at, t.started_at) < clock_timestamp() - $2::bigint * interval '1 us'
