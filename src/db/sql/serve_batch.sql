-- Serves: the page of a batch: how far it is.  Something moves when a member begins or ends; if that was long
-- ago for this batch, nobody knows when it will have ended.
-- Plan: task_batch_idx; run_finished_idx backwards, 2000 rows.  $1 id.
select b.members, b.succeeded, b.failed, b.running, b.waiting, b.percent,
  case when b.status = 'open' then 'not known: members can be added'
    when b.running + b.waiting = 0 then null
    when b.eta is not null and m.still < greatest('1 min', 3 * m.age / (b.members - b.running - b.waiting))
      then b.eta::text
    else format('not known: nothing has moved for %s', date_trunc('second', m.still)) end as eta
from pgrab.batches b cross join lateral (
  select statement_timestamp() - t.created_at as age,
    statement_timestamp() - greatest(t.created_at, l.at, e.at) as still
  from pgrab.task t cross join lateral (
    select greatest(max(x.started_at), max(x.last_finished_at)) as at
    from pgrab.task x where x.batch = t.id) l
    cross join lateral (
    select max(y.finished_at) as at
    from (
      select r.finished_at, r.definition from pgrab.run r
      where r.finished_at >= t.created_at order by r.finished_at desc limit 2000) y
    where (y.definition ->> 'batch')::bigint = t.id) e
  where t.id = b.id) m
where b.id = $1::bigint
