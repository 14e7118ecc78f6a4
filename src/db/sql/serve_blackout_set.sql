-- Serves: PUT /api/v1/blackouts/NAME.  $1 name, $2 the other columns; those left out get their defaults.
insert into pgrab.blackout as b
  (name, during, schedule, lasts, timezone, task_like, source, owner, action, note)
select $1::text, x.during, x.schedule, x.lasts, coalesce(x.timezone, 'UTC'), x.task_like, x.source, x.owner,
  coalesce(x.action, 'hold'), x.note
from jsonb_to_record($2::jsonb) x(during tstzrange, schedule text, lasts interval, timezone text,
  task_like text, source text, owner text, action text, note text)
on conflict (name) do update set during = excluded.during, schedule = excluded.schedule,
  lasts = excluded.lasts, timezone = excluded.timezone, task_like = excluded.task_like,
  source = excluded.source, owner = excluded.owner, action = excluded.action, note = excluded.note
returning row_to_json((select x from (
    select b.name, b.during, b.schedule, b.lasts, b.timezone, b.task_like, b.source, b.owner, b.action,
      b.note, b.set_by) x))
