-- Serves: the page Late.  As cli_top_late, page by page.  Plan: why() only for the rows shown.  $1 how many
-- are put in order, since several may be late since the same moment; $2 behind how many of these the page
-- begins, $3 limit.
with :late
select t.id, t.name, t.kind, date_trunc('second', t.since) as due_at,
  date_trunc('second', statement_timestamp() - t.since) as late_by, pgrab.why(t.id) as why, t.n as cursor
from (
  select l.*, row_number() over (order by l.since, l.id) as n from late l) t
where t.n > $2::bigint and t.n <= $2 + $3::bigint
order by t.n
