-- The backend of a run whose connection was lost may still be working, and even commit: so it is ended, and
-- only then its outcome is looked up.  Hazard: a WHERE may be evaluated in any order, and this one ends
-- processes; so the backend is selected first (materialized), and then ended.
-- Serves: sql executor.  $1 its process id, $2 a moment at which it was ours (process ids are reused).
-- Returns whether it is gone; asked again soon, because a node that is fenced meanwhile has little time.
with backend as materialized (
  select a.pid from pg_stat_activity a
  where a.pid = $1::int and a.datname = current_database() and a.pid <> pg_backend_pid()
    and coalesce(a.backend_start <= $2::timestamptz, true))
select coalesce(bool_and(pg_terminate_backend(b.pid, 500)), true) from backend b
