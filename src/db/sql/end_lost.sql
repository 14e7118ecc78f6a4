-- A connection of ours was lost in the middle of a statement, whose backend may be at it still: it is ended
-- before anybody looks up what became of the statement. Hazard: a WHERE may be evaluated in any order, and
-- this one ends processes; so it is picked first (materialized), and ended then.
-- Serves: db/pg.c.  $1 its process id, $2 a moment at which it was ours (ids come again).
with backend as materialized (
  select a.pid from pg_stat_activity a
  where a.pid = $1::int and a.datname = current_database() and a.usename = current_user
    and a.pid <> pg_backend_pid() and a.backend_start <= $2::timestamptz)
select count(*) filter (where pg_terminate_backend(b.pid, 1000)) from backend b
