-- Serves: PUT /api/v1/limits/KEY.  $1 key, $2 {"max_running": n, "per_second": n, "break_after": n,
-- "break_for": "interval"}; left out: unlimited, and never broken.
insert into pgrab.limit as l (key, max_running, per_second, break_after, break_for)
select $1::text, x.max_running, x.per_second, x.break_after, x.break_for
from jsonb_to_record($2::jsonb) x(max_running integer, per_second double precision, break_after integer,
  break_for interval)
on conflict (key) do update set max_running = excluded.max_running, per_second = excluded.per_second,
  break_after = excluded.break_after, break_for = excluded.break_for
returning row_to_json((select x from (
  select l.key, l.max_running, l.per_second, l.break_after, l.break_for) x))
