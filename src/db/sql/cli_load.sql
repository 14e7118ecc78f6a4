-- Serves: pgrab forecast --load, GET /api/v1/load.  $1 horizon, $2 bucket, $3 how many fires
-- are looked at.
select date_trunc('second', l.at) as at, l.crew, l.fires, l.unknown, l.work_seconds, l.at_once, l.slots,
  date_trunc('second', l.peak_at) as peak_at, l.tasks
from pgrab.load($1::interval, $2::interval, $3::int) l
order by l.crew <> 'workers', l.crew, l.at
