-- Serves: pgrab status, GET /api/v1/attention, the overview.  What needs attention, one line each, and the
-- task, or the node that has died, that it is about.  The reasons are those of the first $1 late tasks (null:
-- 50; each takes a millisecond) and the first thousand failing ones.  Returns one line more than is shown.
:speed,
late as (
  select l.id, l.name, l.kind, l.late_by, l.why from pgrab.late l limit coalesce($1::int, 50)),
failing as (
  select f.*, count(*) over () as all,
    row_number() over (order by f.status = 'parked' desc, f.since desc) as n
  from (select x.* from pgrab.failing x limit 1000) f),
overdue as (
  select o.*, count(*) over () as all, row_number() over (order by o.overdue_by desc) as n
  from (
    select x.id, x.name, x.kind, x.last_success, x.overdue_by from pgrab.overdue x limit 1000) o),
waiting as (
  select w.*, count(*) over () as all, row_number() over (order by w.since, w.id) as n
  from (
    select x.* from pgrab.waits x
    where x.waits_for not like '(%' and x.since <= statement_timestamp() and not x.paused limit 1000) w),
missed as (
  select m.task_id, m.at, m.detail ->> 'fire_at' as fire_at, m.detail ->> 'why' as why,
    coalesce(m.task, (select x.kind from pgrab.task x where x.id = m.task_id), 'task') as task,
    count(*) over () as all, row_number() over (order by m.at desc) as n
  from (
    select e.task_id, e.task, e.at, e.detail
    from (
      select x.* from pgrab.event x
      where x.at > statement_timestamp() - interval '1 hour' order by x.at desc limit 10000) e
    where e.what = 'missed') m)
select a.what, a.text, a.task_id, a.node
from (
  select 0 as part, 0::bigint as size, 'paused' as what,
    format('all tasks have been paused since %s by %s; %s', date_trunc('second', c.paused_at), c.paused_by,
      case when pgrab_tool.copied() then 'pgrab doctor says more'
        else 'pgrab resume --all resumes them' end) as text, null::bigint as task_id,
    null as node
  from pgrab.cluster c where c.paused
  union all
  (select 0, 1, 'blackout', format('blackout %s is on until %s, for %s, and holds %s%s; pgrab blackout '
    'remove ends it', b.name, b.ends_at, b.tasks, b.held, case b.held when 10000 then ' or more' else '' end),
    null, null
  from pgrab.blackouts b where b.state = 'on' order by b.ends_at desc limit 5)
  union all
  select 1, 0, 'node', 'no node is up; start one: pgrab run', null, null
  where not exists (select from pgrab.node n where n.live)
  union all
  select 2, 0, 'node', format('node %s is draining%s', n.name,
    coalesce(', by order of ' || d.asked_by || '; pgrab undrain ' || n.name || ' ends that', '')),
    null, null
  from pgrab.node n left join pgrab.drained d on d.node_id = n.id
  where n.state = 'draining' and n.live and not exists (
    select from pgrab.node u where u.state = 'up' and u.live)
  union all
  select 2, 0, 'node', format('node %s has been silent for %s', n.name, n.heartbeat_age), null, null
  from pgrab.nodes n where n.state = 'silent'
  union all
  (select 2, 0, 'node', format('node %s is down, and did not stop in good order; it was last heard of at '
    '%s%s', n.name, date_trunc('second', i.since), case l.runs when 0 then ''
      else format('; %s%s lost with it', l.runs,
        case l.runs when 1 then ' run was' else ' runs were' end) end),
    null, case when l.runs > 0 then n.name end
  from pgrab.node_incident i join pgrab.node n on n.id = i.node_id
    cross join lateral ( -- by run_failed_idx
      select count(*) as runs
      from (
        select x.node, x.outcome from pgrab.run x
        where x.outcome <> 'succeeded' and x.finished_at >= i.since
          and x.finished_at < i.since + interval '1 day'
        order by x.finished_at limit 5000) x
      where x.node = n.name and x.outcome = 'lost') l
  order by i.since desc limit 5)
  union all
  (select 2, 0, 'pool', format('node %s: %s', n.name, i.ill), null, null
  from pgrab.node n join pgrab.pool p on p.node_id = n.id
    cross join lateral (select pgrab_tool.pool_ill(p.name, p.up, p.processes, p.fault) as ill) i
  where n.live and i.ill is not null order by n.name, p.name limit 5)
  union all
  (select 2, -1, 'limit', format('limit %s is broken: %s failed in a row; nothing under it starts '
    'before %s, then one run at a time tries', b.key, b.failures, b.until), null, null
  from pgrab_tool.limits_broken(5) b)
  union all
  (select 2, -1, 'lock', format('session %s (%s) holds a lock that %s for, since %s: let it commit, or '
    'select pg_terminate_backend(%1$s)', l.pid, l.who,
    case l.runs when 1 then 'a run waits' else l.runs || ' runs wait' end, l.since), null, null
  from pgrab_tool.lockers(5) l)
  union all
  (select 2, -1, 'slow', format('node %s takes %s times as long as others for the same tasks, in %s runs of '
    'the last day', s.node, s.times_usual, s.compared), null, null
  from speed s where s.times_usual >= 2 and s.compared >= 10 order by s.times_usual desc limit 5)
  union all
  select 3, count(*), 'late', format('%s %s late: %s (for up to %s; for example %s)',
    count(*) || case when sum(count(*)) over () = coalesce($1::int, 50) then '+' else '' end,
    case count(*) when 1 then 'task' else 'tasks' end, l.why, max(l.late_by),
    (array_agg(coalesce(l.name, l.kind || ' ' || l.id) order by l.id))[1]), min(l.id), null
  from late l group by l.why
  union all
  select 4, -f.n, 'failing', case when f.n <= 5
      then format('%s (%s) %s: %s failed in a row since %s: %s', coalesce(f.name, f.kind), f.id,
        case f.status when 'parked' then 'is parked' else 'is failing' end, f.failures, f.since,
        coalesce((select regexp_replace(right(regexp_replace(x.last_error, '[[:cntrl:]]+', ' ', 'g'), 104),
            '^.{4}(.{100})$', '...\1')
            from pgrab.task x where x.id = f.id),
          f.outcome))
    else format('%s%s more are failing: select * from pgrab.failing', f.all - 5,
      case when f.all = 1000 then '+' else '' end) end,
    case when f.n <= 5 then f.id end, null
  from failing f where f.n <= 6
  union all
  select 5, -o.n, 'overdue', case when o.n <= 5
      then format('%s (%s) has not succeeded since %s: %s', coalesce(o.name, o.kind), o.id,
        coalesce(o.last_success::text, 'it was created'),
        (select x.why from pgrab.overdue x where x.id = o.id))
    else format('%s%s more are overdue: select * from pgrab.overdue', o.all - 5,
      case when o.all = 1000 then '+' else '' end) end,
    case when o.n <= 5 then o.id end, null
  from overdue o where o.n <= 6
  union all
  select 6, -m.n, 'missed', case when m.n <= 5
      then format('%s (%s) missed its fire of %s: %s', m.task, m.task_id,
        date_trunc('second', m.fire_at::timestamptz),
        pgrab_tool.times_here(m.why))
    else format('%s more missed fires within the last hour: pgrab runs --outcome missed', m.all - 5) end,
    case when m.n <= 5 then m.task_id end, null
  from missed m where m.n <= 6
  union all
  select 7, -w.n, 'waiting', case when w.n <= 5
      then format('%s (%s) has waited for signal %s since %s; pgrab signal %2$s %3$s sends it',
        coalesce(w.name, w.kind), w.id, w.waits_for, w.since)
    else format('%s%s more wait for a signal: pgrab waits', w.all - 5,
      case when w.all = 1000 then '+' else '' end) end,
    case when w.n <= 5 then w.id end, null
  from waiting w where w.n <= 6) a
order by a.part, a.size desc
limit 41
