-- Serves: GET /api/v1/usage.  $1 by what, $2 bucket, $3 within.
-- Plan: the history of that time.
select u.bucket, u.who, u.runs, u.failures, u.seconds, u.cpu_seconds, u.database_seconds, u.memory_bytes,
  u.output_bytes
from pgrab.usage($1::text, $2::interval, $3::interval) u
