-- What one node does for the cluster: wakes tasks in line for a limit that may start now, adds missing lanes,
-- and checks whether dead incarnations hold something.  Serves: recover of the first node, and of the others
-- in turn.  (If two do it at once, pgrab.duty keeps them apart.)  Also returns whether tasks wait in line:
-- then it must be called every second, by whoever knows of it; and whether upkeep is overdue.
select pgrab_internal.limit_tick(), pgrab_internal.lanes_tick(), pgrab_internal.limit_waits(),
  exists (select from pgrab_internal.orphans()),
  exists (select from pgrab.duty d
    where d.duty = 'upkeep' and d.done_at < clock_timestamp() - interval '2 hours')
