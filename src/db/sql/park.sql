-- Parks a task whose end the server refuses to record (a user's foreign key forbids deleting the task, say),
-- so that it is not run again, with the reason.  If the history, or the children of a link, cause the
-- refusal, $8 is false: then no history is written, and the children wait until a user retries the task.
-- Serves: finisher, when everything else was refused.  Plan: task_pkey by id.
-- $1 id, $2 version, $3 incarnation, $4 outcome, $5 why, $6 node, $7 node's name, $8 with history and
-- children?
with parked as (
  update pgrab.task t
  set status = 'parked', due_at = null, version = t.version + 1, node_id = null, incarnation = null,
    claimed_at = null, runs = t.runs + 1, fires = t.fires + 1, last_outcome = $4::text,
    last_error = left($5::text, 1000), last_finished_at = clock_timestamp()
  where t.id = $1::bigint and t.version = $2::bigint and t.incarnation = $3::bigint and t.status = 'running'
  returning t.*),
noted as (
  insert into pgrab.run (task_id, attempt, node_id, incarnation, version, chain_id, fire_at, started_at,
    finished_at, created_at, outcome, kind, node, owner, key, name, error)
  select p.id, p.attempt, $6::bigint, $3::bigint, $2::bigint,
    (select c.chain_id from pgrab.chain c where c.chain = p.chain), p.fire_at, p.started_at,
    clock_timestamp(), p.created_at, $4::text, p.kind, $7::text, p.owner, p.key, p.name, $5::text
  from parked p where $8::boolean)
select p.id, $2::bigint, case when $8::boolean and p.chain is not null
  then pgrab_internal.link_parked(p.id, p.chain, p.fire_at) end
from parked p
union all
-- gives back its place under a limit; adds no row
select null, null, null
from pgrab_internal.limit_give_back(array[$1::bigint], array[$2::bigint], array[$3::bigint]) freed
  where freed < 0
