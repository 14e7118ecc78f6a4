-- Serves: pgrab next.  Refuses what cannot be read, with a hint.  $1 expression, $2 time zone, $3 after
-- (null: now), $4 calendar (null: none), $5 on_closed.
select pgrab_tool.schedule_check($1::text, $2::text), $3::timestamptz,
  pgrab.next_fire($1, $2, coalesce($3, now()), $4::text, $5::text)
