-- Serves: pgrab blackout add.  $1 name (null: the time), $2 how long, $3 schedule (null: once), $4 from when
-- (null: now), $5 zone of the schedule (null: UTC), $6 pattern, $7 source, $8 owner, $9 hold or skip,
-- $10 note.
insert into pgrab.blackout
  (name, during, schedule, lasts, timezone, task_like, source, owner, action, note)
select $1::text, case when $3::text is null then tstzrange(f.at, f.at + $2::interval) end, $3,
  case when $3 is not null then $2::interval end, coalesce($5::text, 'UTC'), $6::text, $7::text, $8::text,
  $9::text, $10::text
from (select coalesce($4::timestamptz, clock_timestamp()) as at) f
returning name
