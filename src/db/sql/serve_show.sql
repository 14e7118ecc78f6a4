-- Serves: the page of one task.  As cli_show, without what has a part of its own there: of a live task no run
-- is read, however many there were.  Raises when there is none.  Plan: task_pkey; run_task_idx.  $1 id.
with runs as (
  select r.* from pgrab.run r where r.task_id = $1::bigint),
:show_task
select coalesce(t.id, pgrab_tool.no_task($1::bigint)) as id, t.name, t.status, t.why, t.kind, t.command,
  t.args, t.key,
  nullif(t.definition - '{command,args,key}'::text[], '{}') as definition,
  t.owner, t.traceparent, t.created_at, t.fire_at, t.due_at, t.node, t.attempt,
  nullif(t.progress, '') as progress, t.eta, t.usual, t.stopping, t.runs, t.failures, t.last_outcome,
  t.last_error, t.last_finished_at, t.waits_for
from (select) one left join task t on true order by t.part limit 1
