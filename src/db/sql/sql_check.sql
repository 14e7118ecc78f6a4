-- The fence, before the work: is this run still ours?  Only read: a lock held for the length of the task
-- would keep people from editing it; the finish, in the same transaction, is the check that counts.  Returns
-- who works for us, should it have to be ended.  By that name others end it when this node is dead; said
-- here, because behind a pooler the name of a session may be what a text before has made of it.
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation.
select pg_backend_pid(), now(), set_config('application_name', 'pgrab sql ' || $3::bigint, true)
from pgrab.task t
where t.id = $1::bigint and t.version = $2::bigint and t.incarnation = $3::bigint and t.status = 'running'
