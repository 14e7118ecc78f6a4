-- Serves: the page of one task.  Its next five fires, those that are not run, and
-- those that its limit, which is broken, lets wait.  Plan: task_pkey,
-- calendar_pkey; a function scan that LIMIT ends.  $1 id.
select date_trunc('second', f.at) as at,
  to_char(f.at at time zone t.timezone, 'Dy YYYY-MM-DD HH24:MI:SS') || ' ' || t.timezone as local,
  date_trunc('second', f.at - statement_timestamp()) as from_now,
  concat_ws('; ', f.becomes, case when f.at < b.until
    then format('not before %s: limit %s is broken',
    date_trunc('second', b.until), t.limit_key) end) as becomes
from pgrab.task t cross join lateral pgrab_tool.coming(t.id, 5) f
  left join lateral pgrab_tool.broken_until(t.limit_key) b(until) on true
where t.id = $1::bigint
order by f.at
