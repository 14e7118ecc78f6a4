-- Serves: PUT /api/v1/limits/KEY.  $1 key, $2 {"max_running": n, "per_second": n}; left out: unlimited.
insert into pgrab.limit as l (key, max_running, per_second)
select $1::text, x.max_running, x.per_second
from jsonb_to_record($2::jsonb) x(max_running integer, per_second double precision)
on conflict (key) do update set max_running = excluded.max_running, per_second = excluded.per_second
returning row_to_json((select x from (select l.key, l.max_running, l.per_second) x))
