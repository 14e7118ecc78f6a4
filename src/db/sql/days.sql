-- Makes the partitions of the coming days.  Serves: recover, and the finisher when a partition is missing.
select pgrab_internal.days_ahead()
