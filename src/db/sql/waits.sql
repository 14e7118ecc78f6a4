-- Ends the fires of tasks whose signal has not come in time, a thousand at most.  Serves: recover of the
-- first node, at the moment when the next wait is over, and of the others in turn.  Returns how many there
-- were, and in how many microseconds the next one is over; null: none ends.
select w.over, w.next_us from pgrab_internal.waits_tick() w
