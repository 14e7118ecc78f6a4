-- What one node does for the cluster: wakes tasks in line for a limit that may start now, adds missing lanes,
-- and checks whether dead incarnations hold something.  Serves: recover of the first node.  (If two nodes
-- think they are the first, pgrab.duty keeps them apart.)  Also returns whether tasks wait in line: then it
-- must be called every second, by whoever knows of it.
select pgrab_internal.limit_tick(), pgrab_internal.lanes_tick(), pgrab_internal.limit_waits(),
  exists (select from pgrab_internal.orphans())
