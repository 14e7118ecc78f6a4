-- Serves: pgrab skip-next.  Raises for an id or a state that cannot be.  $1 ids.
select t.id, t.name, t.kind, case when t.paused and t.status = 'scheduled' then 'paused' else t.status end as status, date_trunc('second', t.due_at) as due_at, t.attempt
from pgrab.skip_next($1::bigint[]) t
