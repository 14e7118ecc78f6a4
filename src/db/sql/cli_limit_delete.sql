-- Serves: pgrab limit --delete.  Tasks that stood in line go on.  $1 key.
delete from pgrab.limit l where l.key = $1::text returning l.key
