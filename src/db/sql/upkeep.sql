-- Makes and drops partitions of the history.  Serves: recover, and the finisher when a partition is missing.
-- $1 retention (us).
select count(*) from pgrab.upkeep($1::bigint * interval '1 us')
