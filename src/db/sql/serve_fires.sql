-- Serves: the page of one task.  Its next five fires, and those that are not run.  Plan: task_pkey,
-- calendar_pkey; a function scan that LIMIT ends.  $1 id.
select date_trunc('second', f.at) as at,
  to_char(f.at at time zone t.timezone, 'Dy YYYY-MM-DD HH24:MI:SS') || ' ' || t.timezone as local,
  date_trunc('second', f.at - statement_timestamp()) as from_now, f.becomes
from pgrab.task t cross join lateral pgrab_tool.coming(t.id, 5) f
where t.id = $1::bigint
order by f.at
