-- Puts back what dead incarnations hold; the rules are in pgrab_internal.recover().
-- Serves: recover.  $1 name of the node that does it, for the history, $2 only this incarnation; null: all
-- that belong to no node that is up, $3 only these tasks; null: all.
select r.put_back, r.had_run, r.parked from pgrab_internal.recover($1::text, $2::bigint, $3::bigint[]) r
