-- Serves: pgrab next.  Refuses what cannot be read, with a hint.  $1 expression, $2 time zone, $3 after
-- (null: now).
select pgrab_tool.schedule_check($1::text, $2::text), $3::timestamptz
