-- Serves: pgrab top.  The tasks that have been late for longest, and why.  Plan: of each shard the first ones of task_due_idx; why() for those shown only.
-- $1 limit, $2 at most so many characters of names.
select t.id, left(t.name, $2::int) as name, t.kind, date_trunc('second', statement_timestamp() - t.due_at) as late_by,
  pgrab.why((select x from pgrab.task x where x.id = t.id)) as why
from (
  select t.id, t.name, t.kind, t.due_at
  from generate_series(0, 1023) as s(shard)
  cross join lateral (
    select t.id, t.name, t.kind, t.due_at from pgrab.task t
    where t.shard = s.shard and t.due_at <= statement_timestamp() - interval '2 s' and t.status <> 'running' order by t.due_at limit $1::bigint) t
  order by t.due_at limit $1::bigint) t
order by t.due_at
