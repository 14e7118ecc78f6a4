-- Before tasks are put back: sql backends of incarnations that no node has are ended, for they would work on with nobody to fence them.
-- Hazard: a WHERE may be evaluated in any order, and this one ends processes; so they are picked first (materialized), and ended then.
-- Serves: recover.
with backend as materialized (
  select a.pid from pg_stat_activity a
  where a.datname = current_database() and a.usename = current_user and a.pid <> pg_backend_pid() and a.application_name like 'pgrab sql %'
    and not exists (select from pgrab.node n where n.state <> 'down' and a.application_name = 'pgrab sql ' || n.incarnation))
select count(*) filter (where pg_terminate_backend(b.pid, 3000)) from backend b
