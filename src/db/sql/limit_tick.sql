-- Those who stand in line of a limit and may go now.  Serves: recover, every second.
select pgrab_internal.limit_tick()
