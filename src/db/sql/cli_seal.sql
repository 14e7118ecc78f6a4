-- Serves: pgrab seal.  Raises for an unknown task or an unsuitable state.  $1 ids, keys, names.
select t.id, coalesce(t.name, t.key) as name, t.kind,
  case when t.paused then 'paused' else t.status end as status,
  date_trunc('second', t.due_at) as due_at, t.attempt
from pgrab.seal($1::text[]) t
