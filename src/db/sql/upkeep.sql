-- Drops old partitions of the history, and removes what else is over.  Serves: recover, after days.sql.
-- $1 retention (us).
select count(*) from pgrab_internal.upkeep($1::bigint * interval '1 us')
