-- Serves: pgrab retry.  Raises for an id or a state that cannot be.  $1 ids.
select t.id, t.name, t.kind, case when t.paused then 'paused' else t.status end as status, date_trunc('second', t.due_at) as due_at, t.attempt
from pgrab.retry($1::bigint[]) t
