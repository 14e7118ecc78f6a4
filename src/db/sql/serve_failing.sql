-- Serves: GET /api/v1/failing, the page.  $1 limit.
select f.* from pgrab.failing f order by f.since desc limit $1::bigint
