-- Serves: the page of a batch: how far it is.  Plan: task_batch_idx.  $1 id.
select b.members, b.succeeded, b.failed, b.running, b.waiting, b.percent,
  case when b.status = 'open' then 'not known: members can be added'
    when b.running + b.waiting > 0 then coalesce(b.eta::text, 'not known: no member has begun'
      || coalesce(' for ' || date_trunc('second', statement_timestamp() - m.begun_at), '')) end as eta
from pgrab.batches b cross join lateral (
  select max(t.started_at) as begun_at from pgrab.task t where t.batch = b.id) m
where b.id = $1::bigint
