-- Serves: pgrab limit.  $1 key, $2 max_running, $3 per_second; null: as it is; the text none: no such limit.
with there as (
  update pgrab.limit l
  set max_running = case when $2::text is null then l.max_running else nullif($2, 'none')::integer end,
    per_second = case when $3::text is null then l.per_second
      else nullif($3, 'none')::double precision end
  where l.key = $1::text returning l.key)
insert into pgrab.limit (key, max_running, per_second)
select $1, nullif($2, 'none')::integer, nullif($3, 'none')::double precision
where not exists (select from there)
