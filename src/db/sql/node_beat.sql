-- One heartbeat: the row after the last one of this node (see pgrab.beat).  0 rows: another node has declared
-- us dead, or our name has a new owner; we are fenced.  It waits for no row lock: a row that another session
-- has locked is left for upkeep to delete.  When the node has become busy, the doorbell tells the others at
-- once.  Returns what users want of us: whether to drain, which of our runs to stop (task and version,
-- separated by spaces), whether an output was requested, and labels, if ours are overridden; with $11,
-- whether the server can lose nothing that it acknowledges; and, with $7, all nodes that are not down (as
-- node_list.sql), so that an idle node needs no other statement.
-- Serves: heartbeat.  Plan: beat_pkey from the end; without $7 the others are not read ($7 has to be within
-- the subquery for that: in a generic plan a join would read them first).  What is the same in all rows is
-- asked once, in subqueries of its own.
-- $1 node, $2 incarnation, $3 state, $4 bell, $5 gauges, $6 what to add to the counts (both arrays: see
-- pgrab.node), $7 the others, too?, $8 busy, $9 ill, $10 do its runs outlast this life of the server, $11
-- null: they cannot; else: are asynchronous standbys accepted? $12 its crews, $13 the tasks it doubts, $14
-- why it is so fit, $15 what its runs came to.
with last as materialized (
  select b.* from pgrab.beat b where b.node_id = $1::bigint order by b.beat desc limit 1),
beat as (
  insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state, bell, busy, ill, gauges, counts,
    server_life, crews, doubts, fitness_why, work)
  select l.node_id, l.beat + 1, l.incarnation, clock_timestamp(),
    case when exists (select from pgrab.drained d where d.node_id = $1::bigint) then 'draining' else $3 end,
    $4::boolean, $8::boolean, $9::boolean, $5::bigint[],
    array(select coalesce(l.counts[u.i], 0) + u.n
      from unnest($6::bigint[]) with ordinality u(n, i) order by u.i),
    case when $10::boolean then pgrab_internal.server_life() end, $12::jsonb, $13::bigint[], $14, $15
  from last l where l.incarnation = $2::bigint and l.state <> 'down'
  on conflict do nothing
  returning node_id, beat),
gone as (
  delete from pgrab.beat b
  using (
    select x.node_id, x.beat from beat n join pgrab.beat x on x.node_id = n.node_id and x.beat = n.beat - 1
    for update of x skip locked) o
  where b.node_id = o.node_id and b.beat = o.beat)
select (date_part('epoch', clock_timestamp()) * 1e6)::bigint as db_now, l.*,
  (select pgrab_internal.server_life()) as life,
  exists (select from pgrab.drained d where d.node_id = $1::bigint) as drain,
  (select string_agg(c.task_id || ' ' || c.version, ' ') from pgrab.cancel_request c
   where c.incarnation = $2::bigint) as stops,
  exists (select from pgrab.live_request r where r.incarnation = $2::bigint) as outputs,
  (select pg_notify('pgrab', 'busy ' || p.node_id)::text from last p
   where $8::boolean and not p.busy) as told,
  $11::boolean is not null and (select pgrab_internal.may_lose($11::boolean)) is null as durable,
  (select o.labels from pgrab.override o where o.node_id = $1::bigint) as override
from beat b left join lateral (
  select :node_columns from pgrab.node n where $7::boolean and not n.down and n.state <> 'down') l on true
order by l.id
