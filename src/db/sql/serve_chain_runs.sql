-- Serves: the page of a chain, GET /api/v1/chains/ID/runs.  The last runs of a chain, the newest first.
-- Plan: run_task_idx of each partition, then a sort, as serve_task_runs; run_chain_idx.
-- $1 a task of the chain, $2 limit.
with last as materialized (
  select r.chain_id
  from (
    select x.chain_id, max(x.finished_at) as finished_at
    from (select y.* from pgrab.run y where y.task_id = $1::bigint offset 0) x
    where x.chain_id is not null group by 1) r
  order by r.finished_at desc limit $2::bigint),
run as (
  select l.chain_id from last l
  union
  select c.chain_id from pgrab.task t join pgrab.chain c on c.chain = t.chain
  where t.id = $1::bigint)
select v.chain_id as run, v.name, v.result, date_trunc('second', v.fire_at) as fire_at, v.started_at,
  v.finished_at, extract(epoch from v.finished_at - v.started_at)::float8 as seconds, v.links, v.failed,
  v.skipped
from run r cross join lateral (
  select x.* from pgrab.chain_runs x where x.chain_id = any (array[r.chain_id])) v
order by v.chain_id desc
