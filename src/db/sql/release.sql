-- Hands back claimed tasks that have not started, and tells sleeping nodes.  Fenced: what is no longer ours
-- is left alone.  If a task came back because its owner lost the right to its kind, nodes are not told of the
-- task, but to read their lanes again.
-- Serves: starter (drain, no free worker, start refused).  Plan: task_pkey by id; HOT.
-- $1 ids, $2 versions, $3 incarnation.
with back as (
  update pgrab.task t
  set status = 'scheduled', version = t.version + 1, node_id = null, incarnation = null, claimed_at = null
  from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
  where t.id = any (array[c.id]) and t.version = c.version and t.incarnation = $3::bigint
    and t.status = 'claimed'
  returning pgrab.shard(t.id) as shard, :may_start as may)
select count(*), case when count(*) filter (where b.may) > 0
    then pgrab_internal.ring(array_agg(distinct b.shard) filter (where b.may))::text end,
  case when not bool_and(b.may) then pg_notify('pgrab', 'lanes')::text end
from back b
