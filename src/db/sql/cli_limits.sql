-- Serves: pgrab limit.  $1 key (null: all).
select l.* from pgrab.limits l where $1::text is null or l.key = $1 order by l.key
