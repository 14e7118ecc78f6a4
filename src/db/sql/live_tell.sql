-- What has changed about runs in progress.  HOT: the only index is the key's, which never changes.
-- Serves: teller.  Plan: live_pkey.  $1 incarnations, $2 ids, $3 versions, $4 percentages, $5 texts; $6 since
-- when, $7 stopping since, in us before now; $8 what they wait for.
insert into pgrab.live as l (incarnation, task_id, version, progress, progress_text, progress_at, stopping_at,
  waits_for)
select n.incarnation, n.id, n.version, n.progress, n.text, clock_timestamp() - n.ago_us * interval '1 us',
  clock_timestamp() - n.stopping_us * interval '1 us', n.waits_for
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::real[], $5::text[], $6::bigint[], $7::bigint[],
  $8::text[]) as n(incarnation, id, version, progress, text, ago_us, stopping_us, waits_for)
order by n.incarnation, n.id
on conflict (incarnation, task_id) do update
set version = excluded.version, progress = excluded.progress, progress_text = excluded.progress_text,
  progress_at = excluded.progress_at, stopping_at = excluded.stopping_at, waits_for = excluded.waits_for
