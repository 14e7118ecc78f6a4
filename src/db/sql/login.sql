-- As which role we are logged in, and to which database.
-- Serves: start of a node, and every connection on which the text of a task runs.
select session_user, r.rolsuper, pg_catalog.current_database(), pg_catalog.pg_backend_pid(),
  pg_catalog.clock_timestamp()
from pg_catalog.pg_roles r where r.rolname operator(pg_catalog.=) session_user
