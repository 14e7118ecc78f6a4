-- The values of pgrab.secret that args name, for runs that have just been started.
-- Serves: starter, for runs that name any.
-- $1 ids, $2 versions, $3 names.
select s.task_id, s.name, s.value
from pgrab_internal.secrets($1::bigint[], $2::bigint[], $3::text[]) s
