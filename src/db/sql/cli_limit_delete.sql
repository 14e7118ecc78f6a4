-- Serves: pgrab limit --delete.  Tasks in line become due.  $1 key.
select l.key from pgrab.limit l where l.key = $1::text and pgrab.delete_limit(l.key)
