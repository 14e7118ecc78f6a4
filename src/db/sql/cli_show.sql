-- Serves: pgrab show.  One task, live or finished, its attempts, the oldest first, and its chain.
-- Raises when there is none.
-- Plan: task_pkey; run_task_idx of each partition; task_chain_idx or run_chain_idx.
-- $1 id.  `definition` leaves out defaults and what has a line of its own.  `chain` is what pgrab.chains has
-- for all roots together, drawn in one pass.
with runs as (
  select r.* from pgrab.run r where r.task_id = $1::bigint),
task as (
  select t.id, t.name, t.status, pgrab.why(t.id) as why, t.kind, t.command, nullif(t.args, '{}') as args,
    t.key, pgrab.definition(t.id) as definition, t.owner, t.traceparent, t.created_at, t.fire_at, t.due_at,
    (select n.name from pgrab.node n where n.id = t.node_id) as node, t.attempt, t.runs, t.failures,
    t.last_outcome, t.last_error, t.last_finished_at,
    concat_ws(' ', l.progress || '%', l.progress_text, '(' || date_trunc('second', l.progress_at) || ')')
      as progress,
    'since ' || date_trunc('second', l.stopping_at) || coalesce(', waits for ' || l.waits_for, '')
      as stopping,
    pgrab_tool.usual(t.durations) as usual, case when t.status = 'running' then
      date_trunc('second', t.started_at + pgrab_tool.usual(t.durations)) end as eta,
    (select w.waits_for from pgrab.waits w where w.id = t.id) as waits_for,
    (select jsonb_agg(jsonb_build_object('name', s.name, 'payload', s.payload, 'role', s.role, 'at', s.at)
      order by s.at) from pgrab.signal s where s.task_id = t.id) as signals,
    1 as part
  from pgrab.task t left join pgrab.live l
    on l.incarnation = t.incarnation and l.task_id = t.id and l.version = t.version and t.status = 'running'
  where t.id = $1::bigint
  union all
  (select r.task_id, r.name, r.ended, null, r.kind, r.definition ->> 'command', r.definition -> 'args',
    coalesce(r.key, r.definition ->> 'key'), r.definition, r.owner, r.traceparent, r.created_at,
    r.fire_at, null, r.node, r.attempt,
    (select count(*) from runs x where x.outcome not in ('skipped', 'missed', 'waited')),
    (select count(*) from runs x where x.outcome not in ('succeeded', 'skipped', 'missed', 'waited')),
    r.outcome,
    r.error, r.finished_at, null, null, null, null, null, r.signals, 2
  from runs r where r.ended is not null order by r.finished_at desc limit 1)),
link as (
  select l.* from pgrab_tool.chain_of($1::bigint) l),
chain as (
  select json_agg(json_build_object('root', l.root, 'depth', l.depth, 'task', l.task, 'id', l.id, 'kind',
    l.kind, 'status', l.status, 'outcome', l.outcome, 'started_at', l.started_at, 'finished_at',
    l.finished_at) order by l.path) as links
  from link l),
attempt as (
  select json_agg(json_build_object('attempt', r.attempt, 'outcome', r.outcome, 'node', r.node, 'claimed_at',
    r.claimed_at, 'started_at', r.started_at, 'finished_at', r.finished_at, 'seconds',
    round(extract(epoch from r.finished_at - r.started_at), 3), 'exit_code', r.exit_code, 'error', r.error,
    'output_truncated', r.output_truncated, 'steps', r.steps, 'cpu_seconds', r.cpu_seconds,
    'memory_bytes', r.memory_bytes) order by r.finished_at) as attempts
  from runs r)
select coalesce(t.id, pgrab_tool.no_task($1::bigint)) as id, t.name, t.status, t.why, t.kind, t.command,
  t.args, t.key,
  nullif(t.definition - '{command,args,key}'::text[], '{}') as definition,
  t.owner, t.traceparent, t.created_at, t.fire_at, t.due_at, t.node, t.attempt,
  nullif(t.progress, '') as progress, t.eta, t.usual, t.stopping, t.runs, t.failures, t.last_outcome,
  t.last_error, t.last_finished_at, coalesce(c.links, '[]') as chain, coalesce(a.attempts, '[]') as attempts,
  (select r.output from runs r order by r.finished_at desc limit 1) as output, t.waits_for, t.signals,
  (select jsonb_agg(jsonb_build_object('name', s.step, 'finished_at', s.finished_at)
    order by s.finished_at, s.step)
  from (
    :show_steps) s) as steps
from chain c cross join attempt a left join task t on true order by t.part limit 1
