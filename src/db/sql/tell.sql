-- Inserts the tasks that tell people of what has happened, for 200 ms; once a minute it first looks for tasks
-- that are overdue or have waited for long, every few seconds for runs that have become slow.  Plans tasks
-- again whose calendar was edited, and lets go what an edited blackout held.  Serves: recover of the first
-- node, and of the others in turn.  Returns how many notices and tasks it had in hand, and whether some are
-- left.
select t.told + c.done + b.done, t.left_over or c.left_over or b.left_over
from pgrab_internal.overdue_tick() o, pgrab_internal.slow_tick() s, pgrab_internal.waiting_tick() w,
  pgrab_internal.notices_tell() t, pgrab_internal.calendars_tick() c, pgrab_internal.blackouts_tick() b
