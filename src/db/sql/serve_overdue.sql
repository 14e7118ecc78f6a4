-- Serves: GET /api/v1/overdue.  $1 limit.
select o.* from pgrab.overdue o order by o.overdue_by desc limit $1::bigint
