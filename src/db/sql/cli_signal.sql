-- Serves: pgrab signal, the API and the page.  Raises for an unknown task, or one that does not wait for it.
-- No row: it had this signal already.  $1 ids, keys, names, $2 the signal, $3 what comes with it, JSON.
select t.id, coalesce(t.name, t.key) as name, t.kind,
  case when t.paused then 'paused' else t.status end as status,
  date_trunc('second', t.due_at) as due_at, t.attempt
from pgrab.signal($1::text[], $2::text, $3::jsonb) t
