-- Serves: pgrab blackout remove.  $1 name.
select b.name from pgrab.blackout b where b.name = $1::text and pgrab.delete_blackout(b.name)
