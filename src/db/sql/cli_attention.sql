-- Serves: pgrab status.  What a person should look at: one line each.  Of a large backlog the first thousand late tasks tell the reasons.
select a.what, a.text
from (
  select 1 as part, 0::bigint as size, 'node' as what, 'no node is up; start one: pgrab run' as text
  from pgrab.overview o where o.nodes_up = 0
  union all
  select 2, 0, 'node', format('node %s has been silent for %s', n.name, n.heartbeat_age)
  from pgrab.nodes n where n.state = 'silent'
  union all
  select 3, count(*), 'late', format('%s %s late: %s (for up to %s; for example %s)', count(*), case count(*) when 1 then 'task' else 'tasks' end, l.why, max(l.late_by), min(l.id))
  from (select l.id, l.late_by, l.why from pgrab.late l limit 1000) l
  group by l.why
  union all
  select 4, 0, 'parked', format('%s %s parked; the latest is %s%s: %s', p.all, case p.all when 1 then 'task' else 'tasks' end, p.id, ' ' || quote_ident(p.name), coalesce(p.error, p.outcome))
  from (select p.*, count(*) over () as all from pgrab.parked p order by p.parked_at desc limit 1) p) a
order by a.part, a.size desc
limit 20
