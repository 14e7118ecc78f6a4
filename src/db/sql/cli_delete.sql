-- Serves: pgrab delete.  Raises for an unknown task or an unsuitable state.  $1 ids, keys, names.
select t.id, coalesce(t.name, t.key) as name, t.kind,
  'deleted' as status,
  date_trunc('second', t.due_at) as due_at, t.attempt
from pgrab.delete($1::text[]) t
