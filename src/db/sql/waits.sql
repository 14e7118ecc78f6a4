-- Ends the fires of tasks whose signal has not come in time, and batches that have no member left, some of
-- them; lets go what quotas have held and have room for; skips links of long chains; tells alerts by the
-- clock.  Serves: recover of the first node, at the moment when the next of these is due, and of the others
-- in turn.  Returns how many it looked at, and in how many microseconds the next one is due; null: none.
select w.over + b.looked + q.looked + s.looked + c.told,
  least(w.next_us, b.next_us, q.next_us, s.next_us, c.next_us)
from pgrab_internal.waits_tick() w cross join pgrab_internal.batches_tick() b
  cross join pgrab_internal.quotas_tick() q cross join pgrab_internal.chain_tick() s
  cross join pgrab_internal.clock_tick() c
