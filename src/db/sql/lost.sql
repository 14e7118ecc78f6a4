-- What dead incarnations hold, by incarnation and task; no task where one holds nothing any more.
-- Serves: recover.  $1 only this incarnation; null: all that belong to no node that is up.
select l.incarnation, l.id from pgrab_internal.lost($1::bigint) l
