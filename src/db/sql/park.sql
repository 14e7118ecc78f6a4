-- Parks a task whose end the server refuses to record (a user's foreign key forbids deleting the task, say),
-- so that it is not run again, with the reason.  If the history, or the children of a link, cause the
-- refusal, $7 is false: then no history is written, and the children wait until a user retries the task.
-- Serves: finisher, when everything else was refused.  Plan: task_pkey by id.
-- $1 id, $2 version, $3 incarnation, $4 outcome, $5 why, $6 node's name, $7 with history and children?
select $1::bigint, $2::bigint
where pgrab_internal.park($1::bigint, $2::bigint, $3::bigint, $4::text, $5::text, $6::text, $7::boolean)
