-- Serves: pgrab runs.  Plan: run_finished_idx backwards, or run_task_idx.
-- $1 task, $2 outcome (null: all), $3 limit.
select h.* from pgrab.history h
where ($1::bigint is null or h.task_id = $1) and ($2::text is null or h.outcome = $2)
order by h.finished_at desc
limit $3::bigint
