-- Deletes the claims of an incarnation that are over.  Serves: recover, when no later claim has done it.
-- $1 incarnation, $2 numbers of claims.
delete from pgrab.hold h where h.incarnation = $1::bigint and h.batch = any ($2::bigint[])
