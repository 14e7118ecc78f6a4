-- Serves: pgrab undelete.  Raises for a task that is live, that has ended, or of which nothing is kept.
-- $1 ids, or the last keys or names.
select t.id, coalesce(t.name, t.key) as name, t.kind, t.status, date_trunc('second', t.due_at) as due_at,
  t.attempt
from pgrab.undelete($1::text[]) t
