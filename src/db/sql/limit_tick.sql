-- Those who stand in line of a limit and may go now; lanes that are missing.  Serves: recover, every second.
-- One node at a time does it, for all: the others find that it is not time yet.
select pgrab_internal.limit_tick(), pgrab_internal.lanes_tick()
