-- Serves: the page of one task.  The links of its chain, for drawing: at most 200, those with the lowest ids.
-- Plan: task_chain_idx, found before it is put in order, as serve_task_runs; edge_child_idx.  $1 id.
with recursive link as materialized (
  select t.id, left(coalesce(t.name, t.key, '#' || t.id), 22) as name, t.status, t.last_outcome, t.parent_id
  from (
    select y.* from pgrab.task y
    where y.chain = (select x.chain from pgrab.task x where x.id = $1::bigint) offset 0) t
  order by t.id limit 200),
edge as materialized (
  select l.parent_id, l.id as child_id from link l where l.parent_id is not null
  union
  select e.parent_id, e.child_id from link l join pgrab.edge e on e.child_id = l.id),
deep as (
  select l.id, 0 as depth from link l where not exists (select from edge e where e.child_id = l.id)
  union
  select e.child_id, d.depth + 1 from deep d join edge e on e.parent_id = d.id where d.depth < 199)
select l.id, l.name, l.status, coalesce(max(d.depth), 0) as depth,
  coalesce((select string_agg(e.parent_id::text, ',') from edge e where e.child_id = l.id), '') as parents
from link l left join deep d on d.id = l.id
group by l.id, l.name, l.status
order by depth, l.id
