-- Deletes claims of an incarnation that are over, except where a task says that it is still held: the node
-- was told nothing of its start, or the server went back to before it.  Returns the numbers of those.
-- Serves: recover, when no later claim has done it, or the node does not know that they are over.  Plan:
-- hold_pkey, task_pkey by id.
-- $1 incarnation, $2 numbers of claims.
with over as materialized (
  select h.batch, exists (
      select from unnest(h.ids) i(id) cross join lateral (
        select x.status, x.incarnation from pgrab.task x where x.id = any (array[i.id]) offset 0) t
      where t.incarnation = h.incarnation and t.status <> 'waiting') as held
  from pgrab.hold h where h.incarnation = $1::bigint and h.batch = any ($2::bigint[])),
gone as (
  delete from pgrab.hold h
  where h.incarnation = $1::bigint and h.batch = any (array(select o.batch from over o where not o.held)))
select o.batch from over o where o.held
