-- Serves: pgrab show.  The chain that cli_show returned, in readable form, as of the same moment.  Reads no
-- table.
-- $1 that array.
select repeat('  ', least(l.depth, 40)) || left(l.task, 40) as chain, l.id, l.status, l.outcome,
  date_trunc('second', l.started_at) as started_at, date_trunc('second', l.finished_at) as finished_at
from rows from (json_to_recordset($1::json) as (
  depth integer, task text, id bigint, status text, outcome text, started_at timestamptz,
  finished_at timestamptz)) with ordinality l
where l.ordinality <= 200
union all
select format('... and %s more', n - 200), null, null, null, null, null
from json_array_length($1::json) n where n > 200
