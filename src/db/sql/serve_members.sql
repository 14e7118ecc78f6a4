-- Serves: the page of a batch: members that have not ended, and why they do not run.  Plan: task_batch_idx;
-- why() only for the rows shown.  $1 id, $2 limit.
select t.id, t.name, t.kind, t.status, t.due_at, pgrab.why(t.id) as why
from (
  select x.id, coalesce(x.name, x.key) as name, x.kind, x.status, date_trunc('second', x.due_at) as due_at
  from pgrab.task x where x.batch = $1::bigint and x.status <> 'done'
  order by x.due_at limit $2::bigint) t
order by t.due_at, t.id
