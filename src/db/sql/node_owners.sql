-- Which owners a node can log in as, when that has changed; nodes then read their lanes again.  No row: the
-- node has another incarnation by now, or has not registered yet.
-- Serves: logins.
-- $1 node, $2 incarnation, $3 owners besides its own role.
with told as (
  update pgrab.registration r set owners = array[session_user::text] || $3::text[]
  where r.id = $1::bigint and $2::bigint = (
    select b.incarnation from pgrab.beat b where b.node_id = r.id order by b.beat desc limit 1)
  returning r.id)
select pg_notify('pgrab', 'lanes') from told
