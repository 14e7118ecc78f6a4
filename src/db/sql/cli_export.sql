-- Serves: pgrab export.  $1 source (null: all).
select jsonb_pretty(pgrab.export($1::text))
