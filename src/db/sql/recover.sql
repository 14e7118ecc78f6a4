-- Puts back what nobody living holds: rows claimed or running for an incarnation that no node that is up has.  Claimed ones were never started and
-- go back as they are; running ones are recorded as lost and tried again at once, or parked (last attempt, at_most_once).  The planned time stays.
-- Serves: recover.  Plan: a held task has kept its due_at, so every shard's head of task_due_idx is read, not the table
-- (the bound comes through a select: clock_timestamp() itself is volatile, and no index would be used).
-- $1 name of the node that does it, for the history, $2 only this incarnation, or null for all that are orphaned.
with alive as (select n.incarnation from pgrab.node n where n.state <> 'down'),
orphan as (
  select t.id, t.version, t.status, t.incarnation, t.node_id, t.claimed_at, t.started_at
  from generate_series(0, 1023) as s(shard)
  cross join lateral (
    select t.* from pgrab.task t
    where t.shard = s.shard and t.due_at <= (select clock_timestamp() + interval '2 hours') and t.status in ('claimed', 'running')) t
  where ($2::bigint is null or t.incarnation = $2::bigint) and not exists (select from alive a where a.incarnation = t.incarnation)
  order by t.id),
back as (
  update pgrab.task t
  set status = case when o.status = 'claimed' or t.attempt < t.max_attempts and t.delivery = 'at_least_once' then 'scheduled' else 'parked' end,
    due_at = case when not t.paused and (o.status = 'claimed' or t.attempt < t.max_attempts and t.delivery = 'at_least_once') then t.due_at end,
    version = t.version + 1, node_id = null, incarnation = null, claimed_at = null,
    runs = t.runs + case o.status when 'running' then 1 else 0 end,
    failures = t.failures + case o.status when 'running' then 1 else 0 end,
    last_outcome = case o.status when 'running' then 'lost' else t.last_outcome end,
    last_error = case o.status when 'running' then 'the node that ran it died or lost its lease' else t.last_error end,
    last_finished_at = case o.status when 'running' then clock_timestamp() else t.last_finished_at end
  from orphan o
  where t.id = any (array[o.id]) and t.version = o.version and t.incarnation = o.incarnation and t.status = o.status
  returning t.*, o.status as was, o.version as fence, o.incarnation as held_by, o.node_id as by_node, o.claimed_at as claimed),
noted as (
  insert into pgrab.run (task_id, attempt, node_id, incarnation, version, fire_at, claimed_at, started_at, finished_at, created_at, outcome, kind, node, owner, name, error)
  select b.id, b.attempt, b.by_node, b.held_by, b.fence, b.fire_at, b.claimed, b.started_at, clock_timestamp(), b.created_at, 'lost', b.kind,
    (select n.name from pgrab.node n where n.id = b.by_node), b.owner, b.name, 'the node that ran it died or lost its lease; seen by ' || $1::text
  from back b where b.was = 'running'
  returning 1)
select count(*), count(*) filter (where b.was = 'running'), count(*) filter (where b.status = 'parked'),
  case when count(*) filter (where b.status = 'scheduled') > 0 then pgrab.ring((select array_agg(distinct x.shard) from back x))::text end
from back b
