-- Serves: pgrab show.  One task, live or finished, its attempts, the oldest first, and its chain.
-- Raises when there is none.
-- Plan: task_pkey; run_task_idx of each partition; task_chain_idx or run_chain_idx.
-- $1 id.  `definition` leaves out defaults and what has a line of its own.  `chain` is what pgrab.chains has
-- for all roots together, drawn in one pass.  There may be a thousand signals of 64 KiB: of those that came
-- last as many payloads are told as 128 KiB hold, of all how long they are.
with runs as (
  select r.* from pgrab.run r where r.task_id = $1::bigint),
:show_task,
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
  (select r.output from runs r order by r.finished_at desc limit 1) as output, t.waits_for,
  (select jsonb_agg(case when s.whole > 131072 then s.signal - 'payload' else s.signal end
      || jsonb_build_object('payload_bytes', s.bytes) order by s.no)
  from (
    select e.*, sum(e.bytes) over (order by e.no desc) as whole
    from (
      select x.signal, x.no, coalesce(octet_length(nullif(x.signal -> 'payload', 'null')::text), 0) as bytes
      from jsonb_array_elements(t.signals) with ordinality x(signal, no) offset 0) e) s) as signals,
  (select jsonb_agg(jsonb_build_object('name', s.step, 'finished_at', s.finished_at)
    order by s.finished_at, s.step)
  from (
    :show_steps) s) as steps
from chain c cross join attempt a left join task t on true order by t.part limit 1
