-- Marks a node down that has stopped in good order, or whose death its keeper reports; of that the doorbell
-- tells the others at once (who stops has told them before: node_beat.sql).
-- Serves: heartbeat, farewell.
-- $1 node, $2 incarnation, $3 what it died of, for the alerts (pgrab.alert); null: it was stopped.
with pools as (
  delete from pgrab.pool p using pgrab.node n
  where p.node_id = $1::bigint and n.id = $1::bigint and n.incarnation = $2::bigint),
last as materialized (
  select b.* from pgrab.beat b where b.node_id = $1::bigint order by b.beat desc limit 1),
down as (
  insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state, bell, counts)
  select l.node_id, l.beat + 1, l.incarnation, clock_timestamp(), 'down', false, l.counts
  from last l where l.incarnation = $2::bigint and l.state <> 'down'
  on conflict do nothing
  returning node_id, heartbeat_at),
away as (
  update pgrab.registration r set down = true
  where r.id in (
    select x.id from pgrab.registration x join down d on d.node_id = x.id for update of x skip locked))
select pg_notify('pgrab', 'leaves ' || d.node_id),
  pgrab_internal.node_died(d.node_id, d.heartbeat_at, $3::text)
from down d where $3::text is not null
