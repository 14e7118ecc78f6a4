-- Serves: GET /api/v1/overview.
select o.* from pgrab.overview o
