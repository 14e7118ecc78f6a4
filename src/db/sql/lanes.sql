-- The lanes that this node may run, and for each the nodes that can run it, among which the strategy divides
-- it.
-- Serves: loader, when the cluster has changed, when the bell rings for a new lane, and now and then.
-- The right to a kind is checked here, so that tasks of a revoked kind are not taken, and again at the start.
-- $1 kinds text[], $2 labels jsonb, $3 owners text[], $4 bounds jsonb.
with node as materialized (
  select n.* from pgrab.node n where n.state = 'up')
select l.lane, (
    select string_agg(n.id::text, ' ' order by n.id) from node n
    where n.labels @> l.require
      and pgrab_internal.runs(n.kinds, n.owners, n.bounds, l.kind, l.owner)) as able,
  l.kind
from (
  select distinct on (l.lane) l.lane, l.owner, l.kind, l.require from pgrab.lane l
  where $2::jsonb @> l.require and pgrab_internal.runs($1::text[], $3::text[], $4::jsonb, l.kind, l.owner)
    and pgrab_internal.may_kind(l.owner, l.kind)
  order by l.lane) l
