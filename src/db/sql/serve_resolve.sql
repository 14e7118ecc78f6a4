-- What the receiver of a request says.  Serves: the door of callbacks.  Plan: task_pkey, wait_pkey.
-- $1 task, $2 token, $3 its words, JSON.
select pgrab.resolve($1::bigint, $2, $3::jsonb)
