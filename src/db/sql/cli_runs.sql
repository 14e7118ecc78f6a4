-- Serves: pgrab runs.  Plan: run_finished_idx backwards, or run_task_idx.  $1 task, $2 outcome, $3 name, $4
-- key, $5 node, $6 source, $7 since, $8 until, $9 started since, $10 started until (null: all), $11 limit.
-- `waited`: as in pgrab.history.  A noop has no started_at.
select r.task_id, coalesce(r.name, r.key) as name, r.kind, r.attempt, r.outcome, r.node,
  date_trunc('second', coalesce(r.started_at, r.claimed_at)) as started_at,
  case when r.attempt = 1 then round(extract(epoch from
    pgrab_tool.run_waited(r.fire_at, r.created_at, r.claimed_at, r.started_at)), 1) end as waited,
  round(extract(epoch from r.finished_at - r.started_at), 3) as seconds,
  date_trunc('second', r.finished_at) as finished_at, r.error
from pgrab.run r
where ($1::bigint is null or r.task_id = $1) and ($2::text is null or r.outcome = $2)
  and ($3::text is null or r.name like $3) and ($4::text is null or r.key like $4)
  and ($5::text is null or r.node = $5)
  and ($6::text is null or exists (select from pgrab.task t where t.id = r.task_id and t.source = $6))
  and r.finished_at >= coalesce(pgrab_tool.moment($7::text), '-infinity')
  and r.finished_at < coalesce(pgrab_tool.moment($8::text), 'infinity')
  and ($9::text is null or r.finished_at >= pgrab_tool.moment($9) -- for the partitions
    and coalesce(r.started_at, r.claimed_at, r.fire_at) >= pgrab_tool.moment($9))
  and ($10::text is null or coalesce(r.started_at, r.claimed_at, r.fire_at) < pgrab_tool.moment($10))
-- For one task the sort key is no plain column, so that the planner finds its runs by task_id, and not in the
-- order of run_finished_idx.
order by case when $1::bigint is null then r.finished_at end desc,
  case when $1::bigint is not null then r.finished_at + interval '0' end desc
limit $11::bigint
