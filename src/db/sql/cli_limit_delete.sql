-- Serves: pgrab limit --delete.  Tasks in line become due.  $1 key.
delete from pgrab.limit l where l.key = $1::text returning l.key
