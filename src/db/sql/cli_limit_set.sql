-- Serves: pgrab limit.  $1 key, $2 max_running, $3 per_second; null: as it is; none: no such limit.
insert into pgrab.limit as l (key, max_running, per_second)
values ($1::text, nullif($2::text, 'none')::integer, nullif($3::text, 'none')::double precision)
on conflict (key) do update
set max_running = case when $2 is null then l.max_running else excluded.max_running end,
  per_second = case when $3 is null then l.per_second else excluded.per_second end
