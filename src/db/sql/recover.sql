-- Puts back what no node that is up holds; the rules are in pgrab_internal.recover().
-- Serves: recover.  $1 name of the node that does it, for the history, $2 only this incarnation, or null for
-- all that are orphaned.
select r.put_back, r.had_run, r.parked from pgrab_internal.recover($1::text, $2::bigint) r
