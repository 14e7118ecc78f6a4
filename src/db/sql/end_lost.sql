-- When a connection of ours is lost in the middle of a statement, its backend may still be executing it: so
-- it is ended before the outcome of the statement is looked up.  Hazard: a WHERE may be evaluated in any
-- order, and this one ends processes; so the backend is selected first (materialized), and then ended.
-- Serves: db/pg.c.  $1 its process id, $2 a moment at which it was ours (process ids are reused).
with backend as materialized (
  select a.pid from pg_stat_activity a
  where a.pid = $1::int and a.datname = current_database() and a.usename = current_user
    and a.pid <> pg_backend_pid() and a.backend_start <= $2::timestamptz)
select count(*) filter (where pg_terminate_backend(b.pid, 1000)) from backend b
