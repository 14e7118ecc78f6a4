-- Serves: DELETE /api/v1/limits/KEY.  $1 key.
select row_to_json((select x from (
  select l.key, l.max_running, l.per_second, l.break_after, l.break_for) x))
from pgrab.limit l where l.key = $1::text and pgrab.delete_limit(l.key)
