-- Serves: pgrab tasks.  Live tasks, the newest first, then finished ones, the latest first.
-- Plan: task_pkey backwards; run_finished_idx backwards, which is why the finished half does not go through pgrab.tasks: it has no such order.
-- $1 status, $2 kind, $3 name (null: all), $4 limit.
select a.id, a.name, a.kind, a.status, a.attempt, a.due_at, a.node, a.finished_at
from (
  (select t.*, 1 as part, null::timestamptz as ended_at from pgrab.tasks t
   where t.status in ('waiting', 'scheduled', 'claimed', 'running', 'parked')
     and ($1::text is null or t.status = $1) and ($2::text is null or t.kind = $2) and ($3::text is null or t.name = $3)
   order by t.id desc limit $4::bigint)
  union all
  (select r.task_id, r.name, r.kind, r.ended, r.attempt, null, r.node, date_trunc('second', r.finished_at), 2, r.finished_at
   from pgrab.run r
   where r.ended is not null
     and ($1::text is null or r.ended = $1) and ($2::text is null or r.kind = $2) and ($3::text is null or r.name = $3)
   order by r.finished_at desc limit $4::bigint)) a
order by a.part, a.ended_at desc, a.id desc
limit $4::bigint
