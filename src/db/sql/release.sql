-- Hands back claimed tasks that have not started, and tells sleeping nodes.  Fenced: what is no longer ours
-- is left alone.  If a task came back because its owner lost the right to its kind, nodes are not told of the
-- task, but to read their lanes again.
-- Serves: starter (drain, no free worker, start refused).  Plan: task_pkey by id; HOT.
-- $1 ids, $2 versions, $3 incarnation.
with mine as materialized (
  select t.id, t.version, :may_start as may
  from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
    join pgrab.task t on t.id = any (array[c.id]) and t.version = c.version and t.incarnation = $3::bigint
      and t.status = 'claimed'
  for update of t)
select cardinality(pgrab_internal.move(array_agg(pgrab_internal.move_to(
    m.id, m.version, case when m.may then 'release' else 'refuse' end)))) as count,
  case when not bool_and(m.may) then pg_notify('pgrab', 'lanes')::text end
from mine m
