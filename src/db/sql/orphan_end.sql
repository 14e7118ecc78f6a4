-- Ends one of these, on a connection of its own role.  Hazard: see sql_end_backend.sql.
-- Serves: recover.  $1 its process id, $2 its application_name.
with backend as materialized (
  select a.pid from pg_stat_activity a
  where a.pid = $1::int and a.application_name = $2 and a.usename = session_user
    and a.datname = current_database())
select coalesce(bool_and(pg_terminate_backend(b.pid, 3000)), true) from backend b
