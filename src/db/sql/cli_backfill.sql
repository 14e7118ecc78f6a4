-- Serves: pgrab backfill.  Raises for a task that cannot be backfilled, or has no fire then.  $1 id, key or
-- name, $2 from, $3 until, as for pgrab_tool.moment(), $4 how many run at once (0: as many as may),
-- $5 overlap, $6 dry run.
select b.batch, b.fires, b.first_fire, b.last_fire
from pgrab.backfill($1::text, pgrab_tool.moment($2::text), pgrab_tool.moment($3::text),
  nullif($4::integer, 0), $5::boolean, $6::boolean) b
