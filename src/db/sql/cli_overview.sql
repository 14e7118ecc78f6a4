-- Serves: pgrab status, GET /api/v1/overview and the page.
select o.*, pgrab_tool.count_waiting() as waiting from pgrab.overview o
