-- Serves: pgrab wait.  Has the fire ended that was the current one at the first look?  No row: there is no
-- such task.  $1 id, $2 `fires` at the first look (null: this is the first).
select t.fires, t.status in ('parked', 'done', 'cancelled', 'skipped') or t.fires > $2::bigint as over,
  t.last_outcome as outcome, t.last_error as error
from pgrab.task t where t.id = $1::bigint
union all
select 0, true, r.outcome, r.error
from pgrab.last_run($1::bigint, 'ended') r where not exists (select from pgrab.task t where t.id = $1::bigint)
