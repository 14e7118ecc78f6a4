-- A node that was seen silent for dead_after is marked down, unless it has beaten since (then 0 rows).  This row lock is where a zombie's heartbeat and its
-- peers meet: only one of them goes through.  Its sql backends are ended, for they would work on with nobody to fence them.
-- Hazard: a WHERE may be evaluated in any order, and this one ends processes; so they are picked first (materialized), and ended then.
-- Serves: recover.  $1 node, $2 incarnation, $3 the beat that was seen.
with dead as (
  update pgrab.node n set state = 'down', in_hand = 0, running = 0, bell = false
  where n.id = $1::bigint and n.incarnation = $2::bigint and n.beat = $3::bigint and n.state <> 'down'
  returning n.incarnation),
backend as materialized (
  select a.pid from pg_stat_activity a, dead d
  where a.datname = current_database() and a.usename = current_user and a.pid <> pg_backend_pid() and a.application_name = 'pgrab sql ' || d.incarnation),
ended as materialized (select pg_terminate_backend(b.pid, 3000) as done from backend b)
select d.incarnation, (select count(*) from ended e where e.done) from dead d
