-- Serves: pgrab apply.  $1 the file, $2 source (null: as the file says), $3 prune.
select pgrab.apply($1::jsonb, $2::text, $3::boolean)
