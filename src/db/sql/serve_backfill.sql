-- Serves: the API.  $1 ids, keys, names: one of them, $2 a JSON object: from, until, and what else
-- pgrab.backfill() takes.
select b.batch, b.fires, b.first_fire, b.last_fire
from pgrab_tool.on_backfill(pgrab_tool.ids_of($1::text[]),
  '{"max_running": 1, "overlap": false, "dry_run": false}' || $2::jsonb) b
