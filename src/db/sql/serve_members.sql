-- Serves: the page of a batch: members that have not ended, and why.  Of those that run, those that are due
-- and those that cannot run now, so many each.
-- Plan: in_hand(); task_batch_idx; why() and explain() only for the rows shown.  $1 id, $2 limit of each.
with member as materialized (
  select * from (
    select 1 as part, x.id, coalesce(x.name, x.key) as name, x.kind, x.status, x.started_at as since
    from pgrab_tool.in_hand() x where x.batch = $1::bigint and x.status = 'running'
    order by x.started_at limit $2::bigint) r
  union all
  select * from (
    select 2, x.id, coalesce(x.name, x.key), x.kind, x.status, x.due_at
    from pgrab.task x where x.batch = $1::bigint and x.status in ('scheduled', 'claimed')
      and x.due_at is not null
    order by x.due_at limit $2::bigint) d
  union all
  select * from (
    select 3, x.id, coalesce(x.name, x.key), x.kind, x.status, greatest(x.fire_at, x.created_at)
    from pgrab.task x where x.batch = $1::bigint and x.due_at is null
      and x.status in ('scheduled', 'waiting', 'parked') limit $2::bigint) w)
select m.id, m.name, m.kind, m.status, date_trunc('second', m.since) as since,
  case when m.part = 1 then (
      select string_agg(e.detail, ' ' order by e.verdict = 'ok', e.gate) from pgrab.explain(m.id) e)
    else pgrab.why(m.id) end as why
from member m
order by m.part, m.since, m.id
