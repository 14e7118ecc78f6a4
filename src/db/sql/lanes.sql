-- The lanes that this node may run, and for each the nodes that can run it, among which the strategy divides
-- it; these only where they are not those of the lane before.
-- Serves: loader, when the cluster has changed, when the bell rings for a new lane, and now and then.
-- What can run what is worked out once for all nodes that say the same of themselves, and all lanes of an
-- owner, kind and require: in one step (step), while no node is reserved; else by the lowest band of the
-- nodes that take a band.  The right to a kind is checked here, so that tasks of a revoked kind are not
-- taken, and again at the start.
-- What prefers some nodes is divided among those of them that are up; the others may take it when it is late
-- by so many us (0: this node is one that it prefers).
-- What takes more room than a node has is none of its lanes.
-- $1 kinds text[], $2 labels jsonb, $3 owners text[], $4 bounds jsonb, $5 the lowest band that it takes, $6
-- its slots for kinds that are not the workers' jsonb, $7 its workers, $8 its memory bigint.
with node as materialized (
  select row_number() over () as no, n.*
  from (
    select n.labels, n.kinds, n.owners, n.bounds, n.room, n.memory,
      pgrab_internal.band(coalesce(n.min_priority, -1::smallint)) as from_band,
      string_agg(n.id::text, ' ' order by n.id) as ids
    from pgrab.node n where not n.down and n.state = 'up' group by 1, 2, 3, 4, 5, 6, 7) n),
step as materialized (
  select b.band, (select max(n.from_band) from node n where n.from_band <= b.band) as step
  from generate_series(1, 5) b(band)),
mine as materialized (
  select l.owner, l.kind, l.require, l.prefer, coalesce(s.step, 0) as step, l.slots, l.memory,
    array_agg(l.id order by l.id) as ids,
    array_agg(l.lane order by l.id) as lanes, array_agg(l.band order by l.id) as bands,
    array_agg(l.shared order by l.id) as shared,
    array_agg(case when $2::jsonb @> l.prefer then 0 else coalesce(l.failover, 0) end order by l.id) as late
  from (select distinct on (x.owner, x.lane) x.* from pgrab.lane x order by x.owner, x.lane, x.id) l
    join step s on s.band = l.band
  where $2::jsonb @> l.require and pgrab_internal.runs($1::text[], $3::text[], $4::jsonb, l.kind, l.owner)
    and l.band >= $5::int
    and pgrab_internal.has_room($6::jsonb || jsonb_build_object('', $7::int), $8::bigint, l.kind, l.slots,
      l.memory)
  group by 1, 2, 3, 4, 5, 6, 7),
divided as materialized (
  select m.*, a.able
  from mine m cross join lateral (
    select coalesce(array_agg(n.no) filter (where n.labels @> m.prefer), array_agg(n.no), '{}') as able
    from node n
    where n.labels @> m.require and n.from_band <= m.step
      and pgrab_internal.runs(n.kinds, n.owners, n.bounds, m.kind, m.owner)
      and pgrab_internal.has_room(n.room, n.memory, m.kind, m.slots, m.memory)) a
  where case when (select c.roles from pgrab.cluster c) then pgrab_internal.may_kind(m.owner, m.kind)
    else true end)
select u.id, u.lane, u.band, d.kind, case when d.able is distinct from lag(d.able) over w
  then (select coalesce(string_agg(n.ids, ' ' order by n.no), '') from node n where n.no = any (d.able)) end
  as able, u.shared, u.late, d.slots, d.memory
from divided d cross join lateral unnest(d.ids, d.lanes, d.bands, d.shared, d.late)
  u(id, lane, band, shared, late)
window w as (order by d.able, u.id)
order by d.able, u.id
