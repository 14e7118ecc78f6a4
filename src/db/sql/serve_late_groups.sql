-- Serves: the overview.  The reasons of the first $1 late tasks, and of each the one that is late for
-- longest.  Plan: why() for each.
with :late
select g.why as "first reason", g.tasks, g.late_by, (g.ids)[1] as task_id, (g.names)[1] as name
from (
  select w.why, max(w.late_by) as late_by, array_agg(w.id order by w.since, w.id) as ids,
    array_agg(coalesce(w.name, w.kind) order by w.since, w.id) as names,
    concat(count(*), case when sum(count(*)) over () >= $1::bigint then ' or more' end) as tasks
  from (
    select l.*, date_trunc('second', statement_timestamp() - l.since) as late_by, pgrab.why(l.id) as why
    from late l) w
  group by w.why) g
order by g.late_by desc limit 12
