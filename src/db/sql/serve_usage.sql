-- Serves: GET /api/v1/usage, page by page: a row as JSON, and the cursor of the next page.  Within a bucket
-- those without a name come last.
-- Plan: the history of that time, for each page.  $1 by what, $2 bucket, $3 within, $4 cursor (null: the
-- first page), $5 limit.
with q as (
  select u.*, coalesce('a' || u.who, 'b') as place from pgrab.usage($1::text, $2::interval, $3::interval) u)
select row_to_json((select x from (
    select q.bucket, q.who, q.runs, q.failures, q.seconds, q.cpu_seconds, q.database_seconds, q.memory_bytes,
      q.output_bytes) x)) as row,
  concat(q.bucket, '~', q.place) as cursor
from q
where $4::text is null
  or (q.bucket, q.place) > (split_part($4, '~', 1)::timestamptz, substr($4, strpos($4, '~') + 1))
order by q.bucket, q.place
limit $5::bigint
