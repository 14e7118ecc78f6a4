-- What one node does for the cluster: wakes tasks in line for a limit that may start now, adds missing lanes,
-- checks whether dead incarnations hold something, and searches for what is held without a claim that says
-- so.  Serves: recover of the first node, and of the others in turn.  (If two do it at once, pgrab.duty keeps
-- them apart.)  Also returns whether tasks wait in line: then it must be called every second, by a node that
-- knows of it; whether upkeep is overdue; and whether that search goes on.
select pgrab_internal.limit_tick(), pgrab_internal.lanes_tick(), pgrab_internal.limit_waits(),
  exists (select from pgrab_internal.orphans()),
  exists (select from pgrab.duty d
    where d.duty = 'upkeep' and d.done_at < clock_timestamp() - interval '2 hours'),
  pgrab_internal.strays_tick()
