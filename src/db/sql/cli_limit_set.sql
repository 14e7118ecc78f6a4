-- Serves: pgrab limit.  $1 key, $2 max_running, $3 per_second, $4 break_after, $5 break_for; null: as it is;
-- the text none: no such limit.
with there as (
  update pgrab.limit l
  set max_running = case when $2::text is null then l.max_running else nullif($2, 'none')::integer end,
    per_second = case when $3::text is null then l.per_second
      else nullif($3, 'none')::double precision end,
    break_after = case when $4::text is null then l.break_after else nullif($4, 'none')::integer end,
    break_for = case when $5::text is null then l.break_for else nullif($5, 'none')::interval end
  where l.key = $1::text returning l.key)
insert into pgrab.limit (key, max_running, per_second, break_after, break_for)
select $1, nullif($2, 'none')::integer, nullif($3, 'none')::double precision, nullif($4, 'none')::integer,
  nullif($5, 'none')::interval
where not exists (select from there)
