-- Serves: pgrab events.  Plan: event_at_idx backwards, or event_task_idx.  $1 task, $2 role, $3 since (null:
-- all), $4 limit.
select date_trunc('second', e.at) as at, e.what, e.role, e.login, e.task_id, e.task, e.detail
from pgrab.event e
where ($1::bigint is null or e.task_id = $1) and ($2::text is null or e.role = $2)
  and e.at >= coalesce(pgrab_tool.moment($3::text), '-infinity')
order by e.at desc
limit $4::bigint
