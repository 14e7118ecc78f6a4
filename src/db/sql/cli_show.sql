-- Serves: pgrab show.  One task, live or finished, and its attempts, the oldest first.  Plan: task_pkey; run_task_idx of each partition.
-- $1 id.  `definition` is what is not the default, without what has a line of its own.
with runs as (
  select r.* from pgrab.run r where r.task_id = $1::bigint),
task as (
  select t.id, t.name, t.status, pgrab.why(t) as why, t.kind, t.command, nullif(t.args, '{}') as args, t.key,
    pgrab.definition(t) as definition, t.owner, t.created_at, t.fire_at, t.due_at, (select n.name from pgrab.node n where n.id = t.node_id) as node,
    t.attempt, t.runs, t.failures, t.last_outcome, t.last_error, t.last_finished_at, 1 as part
  from pgrab.task t where t.id = $1::bigint
  union all
  (select r.task_id, r.name, r.ended, null, r.kind, r.definition ->> 'command', r.definition -> 'args', r.definition ->> 'key',
    r.definition, r.owner, r.created_at, r.fire_at, null, r.node,
    r.attempt, (select count(*) from runs), (select count(*) from runs x where x.outcome <> 'succeeded'), r.outcome, r.error, r.finished_at, 2
  from runs r where r.ended is not null order by r.finished_at desc limit 1))
select t.id, t.name, t.status, t.why, t.kind, t.command, t.args, t.key,
  nullif(t.definition - '{command,args,key}'::text[], '{}') as definition,
  t.owner, t.created_at, t.fire_at, t.due_at, t.node, t.attempt, t.runs, t.failures, t.last_outcome, t.last_error, t.last_finished_at,
  (select coalesce(json_agg(json_build_object('attempt', r.attempt, 'outcome', r.outcome, 'node', r.node, 'claimed_at', r.claimed_at, 'started_at', r.started_at,
     'finished_at', r.finished_at, 'seconds', round(extract(epoch from r.finished_at - r.started_at), 3), 'exit_code', r.exit_code, 'error', r.error,
     'output_truncated', r.output_truncated) order by r.finished_at), '[]') from runs r) as attempts,
  (select r.output from runs r order by r.finished_at desc limit 1) as output
from task t order by t.part limit 1
