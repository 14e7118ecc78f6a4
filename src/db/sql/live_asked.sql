-- Takes the requests that this node must answer.  Serves: teller.  Plan: live_request_incarnation_idx.
-- $1 incarnation, $2 limit.
with taken as (
  delete from pgrab.live_request r
  where r.id in (
    select x.id from pgrab.live_request x where x.incarnation = $1::bigint
    limit $2::bigint)
  returning r.task_id, r.version)
select distinct t.task_id, t.version from taken t
