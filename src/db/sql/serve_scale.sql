-- Serves: GET /api/v1/scale.  $1 within.
select s.* from pgrab.scale($1::interval) s
