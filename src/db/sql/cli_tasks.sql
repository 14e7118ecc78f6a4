-- Serves: pgrab tasks.  Live tasks, the newest first, then finished ones, the latest first.
-- Plan: task_pkey backwards; run_finished_idx backwards, which is why the finished half does not go through
-- pgrab.tasks: it has no such order.
-- $1 status, $2 kind, $3 name, $4 key, $5 node, $6 source (null: all), $7 limit.
with live as (
  select t.id, t.name, t.kind, t.status, t.attempt, t.due_at, t.node, t.finished_at
  from pgrab.tasks t
  where t.status in ('waiting', 'scheduled', 'claimed', 'running', 'parked')
    and ($1::text is null or t.status = $1) and ($2::text is null or t.kind = $2)
    and ($5::text is null or t.node = $5)
    and (num_nonnulls($3::text, $4::text, $6::text) = 0 or exists (
      select from pgrab.task x
      where x.id = t.id and ($3 is null or x.name like $3) and ($4 is null or x.key like $4)
        and ($6 is null or x.source = $6)))
  order by t.id desc limit $7::bigint),
ended as (
  select r.task_id as id, coalesce(r.name, r.key) as name, r.kind, r.ended, r.attempt, r.node, r.finished_at
  from pgrab.run r
  where r.ended is not null and $6 is null
    and ($1 is null or r.ended = $1) and ($2 is null or r.kind = $2) and ($5 is null or r.node = $5)
    and ($3 is null or r.name like $3) and ($4 is null or r.key like $4)
  order by r.finished_at desc limit $7)
select a.id, a.name, a.kind, a.status, a.attempt, a.due_at, a.node, a.finished_at
from (
  select l.*, 1 as part, null::timestamptz as ended_at from live l
  union all
  select e.id, e.name, e.kind, e.ended, e.attempt, null, e.node, date_trunc('second', e.finished_at), 2,
    e.finished_at
  from ended e) a
order by a.part, a.ended_at desc, a.id desc
limit $7
