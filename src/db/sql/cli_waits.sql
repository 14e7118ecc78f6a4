-- Serves: pgrab waits, GET /api/v1/waits.  Those that have waited for longest come first.
select w.* from pgrab.waits w order by w.since, w.id limit 1000
