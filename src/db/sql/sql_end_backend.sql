-- Before a lost COMMIT is looked up: the backend that may still be at it has to be gone.  Serves: sql executor.  $1 its process id.
select pg_terminate_backend(a.pid, 3000) from pg_stat_activity a where a.pid = $1::int and a.pid <> pg_backend_pid() and a.usename = current_user
