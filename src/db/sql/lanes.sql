-- The lanes that this node may run, and which nodes are able to run each: among these the strategy divides
-- it.
-- Serves: loader, when the cluster has changed, when a new lane was rung for, and now and then.
-- $1 kinds text[], $2 labels jsonb.
select l.lane, (
    select string_agg(n.id::text, ' ' order by n.id) from pgrab.node n
    where n.state = 'up' and l.kind = any (n.kinds) and n.labels @> l.require) as able
from (
  select distinct on (l.lane) l.lane, l.kind, l.require from pgrab.lane l
  where l.kind = any ($1::text[]) and $2::jsonb @> l.require
  order by l.lane) l
