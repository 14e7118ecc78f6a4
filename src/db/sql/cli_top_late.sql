-- Serves: pgrab top.  The tasks that have been late for longest, and why.  Plan: due_first(), and at most ten
-- thousand tasks that wait under a limit (task_line_idx); why() only for the rows shown.  $1 limit, $2
-- maximum length of names.
select t.id, left(t.name, $2::int) as name, date_trunc('second', statement_timestamp() - t.since) as late_by,
  pgrab.why(t.id) as why, t.kind
from (
  select t.*
  from (
    select f.id, coalesce(f.name, f.key) as name, f.kind, f.due_at as since
    from pgrab_tool.due_first(statement_timestamp() - interval '2 s', '{scheduled,claimed}', $1::int) f
    union all
    (select l.id, coalesce(l.name, l.key), l.kind, l.fire_at
    from pgrab_tool.in_line() l where l.fire_at <= statement_timestamp() - interval '2 s'
    limit 10000)) t
  order by t.since limit $1::bigint) t
order by t.since
