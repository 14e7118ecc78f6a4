-- What runs have printed so far.  Serves: teller.  Plan: live_output_pkey.
-- $1 incarnations, $2 ids, $3 versions, $4 texts, $5 bytes in all, $6 bytes at the end without a gap.
insert into pgrab.live_output as o (incarnation, task_id, version, output, total, unbroken)
select n.incarnation, n.id, n.version, n.output, n.total, n.unbroken
from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::integer[])
  as n(incarnation, id, version, output, total, unbroken)
order by n.incarnation, n.id
on conflict (incarnation, task_id) do update
set version = excluded.version, output = excluded.output, total = excluded.total,
  unbroken = excluded.unbroken, told_at = clock_timestamp()
