-- Deletes reports about runs that have ended, and requests for them.
-- Serves: teller.  Plan: the keys of the three tables.  $1 incarnations, $2 ids, $3 versions.
with e as (
  select * from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as u(incarnation, id, version)),
asked as (
  delete from pgrab.live_request r using e
  where r.incarnation = e.incarnation and r.task_id = e.id and r.version = e.version),
shown as (
  delete from pgrab.live_output o using e
  where o.incarnation = e.incarnation and o.task_id = e.id and o.version = e.version)
delete from pgrab.live l using e
where l.incarnation = e.incarnation and l.task_id = e.id and l.version = e.version
