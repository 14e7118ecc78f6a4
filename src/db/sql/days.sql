-- Makes the partitions of the coming days.  Serves: recover; finisher and sql executor when one is missing.
select pgrab_internal.days_ahead()
