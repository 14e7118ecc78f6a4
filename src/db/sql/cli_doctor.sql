-- Serves: pgrab doctor.  One row for each check: ok, or what is wrong and what to do; `note`: worth knowing,
-- and nothing is wrong.  Only for the first two
-- thousand late tasks it checks which nodes could run them.
with o as materialized (
  select x.* from pgrab.overview x)
select c.name,
  case when c.fault is null then 'ok' when c.fault like 'note: %' then 'note' else 'fix' end as verdict,
  coalesce(regexp_replace(c.fault, '^note: ', ''), c.fine) as detail
from (
  select 1 as n, 'nodes' as name, format('%s up', o.nodes_up) as fine,
    case when o.nodes_up = 0 then 'no node is up; start one: pgrab run'
      when o.nodes_up = 1 then 'note: only one node is up: when it stops, nothing runs until it is back'
      end as fault
  from o
  union all
  select 2, 'strategies', 'all nodes have the same strategy',
    (select 'live nodes have several strategies: give all the same --strategy' from pgrab.nodes x
    where x.warning = 'mixed strategies' limit 1)
  union all
  select 3, 'versions', 'all nodes have the same version',
    (select format('live nodes have the versions %s: upgrade the rest',
      string_agg(distinct x.pgrab_version, ', '))
    from pgrab.node x where x.live having count(distinct x.pgrab_version) > 1)
  union all
  select 4, 'silent nodes', 'none', (select string_agg(
    x.name || ' has been silent for ' || x.heartbeat_age, '; ') || ': look at its log, restart it'
    from pgrab.nodes x where x.state = 'silent')
  union all -- what pgrab status says, too, for as long as they are not back
  select 5, 'dead nodes', 'none', (select string_agg(format('%s (last heard of at %s)', x.name,
      date_trunc('second', x.since)), ', ' order by x.since desc)
    || ' died and did not come back: look at the machine and the network, and at the log, and start it '
    || 'again; if another node is in its place: pgrab drain NAME'
    from (
      select n.name, i.since from pgrab.node_incident i join pgrab.node n on n.id = i.node_id
      where i.since > statement_timestamp() - interval '1 day' order by i.since desc limit 20) x)
  union all
  select 6, 'durability', 'commits survive a crash', case when not pgrab_tool.durable()
    then 'fsync, full_page_writes or synchronous_commit is off: turn them on' end
  union all
  select 7, 'autovacuum', 'on', case when not current_setting('autovacuum')::boolean
    then 'autovacuum is off: turn it on, or the tables of pgrab grow without end' end
  union all
  select 8, 'connections', format('%s of %s in use', count(*), current_setting('max_connections')),
    case when count(*) > 0.8 * current_setting('max_connections')::integer
      then format('%s of %s connections are in use: raise max_connections', count(*),
        current_setting('max_connections')) end
  from pg_stat_activity a where a.backend_type = 'client backend'
  union all
  select 9, 'old transactions', 'none is older than five minutes',
    (select format('session %s (%s%s) has had a transaction open since %s, which keeps dead rows: end it '
      'with select pg_terminate_backend(%s)', x.pid, x.usename, ', ' || nullif(x.application_name, ''),
      date_trunc('second', x.xact_start), x.pid)
    from pg_stat_activity x
    where x.backend_xmin is not null and x.xact_start < statement_timestamp() - interval '5 minutes'
      and x.backend_type = 'client backend'
    order by x.xact_start limit 1)
  union all
  select 10, 'history', 'partitions are made ahead', case when to_regclass(
      'pgrab.run_' || to_char((statement_timestamp() at time zone 'UTC')::date + 1, 'YYYYMMDD')) is null
    then 'there is no partition for tomorrow: select * from pgrab.upkeep()' end
  union all
  select 11, 'dead rows', 'few', (select format('pgrab.%s has %s dead rows for %s live ones: is autovacuum '
      'held up by an old transaction or a replication slot?', s.relname, s.n_dead_tup, s.n_live_tup)
    from pg_stat_user_tables s
    where s.schemaname = 'pgrab' and s.n_dead_tup > 100000 and s.n_dead_tup > 2 * s.n_live_tup
    order by s.n_dead_tup desc limit 1)
  union all
  select 12, 'prepared transactions', 'none is old',
    (select format('%s was prepared at %s: commit or roll it back', x.gid, date_trunc('second', x.prepared))
    from pg_prepared_xacts x where x.prepared < statement_timestamp() - interval '5 minutes' limit 1)
  union all
  select 13, 'kinds and labels', 'every lane has a node that runs it',
    (select case when x.kind = 'sql' and not x.login
        then format('no live node has a connection for owner %s, and %s tasks wait for one: give one a '
          'section [owner %s], or fix the login that it names', x.owner, x.tasks, x.owner)
        else format('no live node runs kind %s%s with labels %s%s%s, and %s tasks wait for one', x.kind,
          case when x.bound then ' for owner ' || x.owner end, x.require,
          case when x.reserved then ' and priority ' || x.priority end,
          case when (x.slots, x.memory) is distinct from (1, null) then ' and room for ' || concat_ws(' and ',
            x.slots || ' slots', pg_size_pretty(x.memory) || ' of memory') end, x.tasks) end
    from (
      select t.kind, t.owner, t.require, min(t.priority) as priority, t.slots, t.memory,
        exists (select from pgrab.node n where n.state = 'up' and n.min_priority is not null) as reserved,
        count(*) || case when sum(count(*)) over () = 2000 then '+' else '' end as tasks,
        exists (select from pgrab.node n where n.state = 'up' and t.owner = any (n.owners)) as login,
        exists (select from pgrab.node n where n.state = 'up' and n.bounds ? t.owner) as bound
      from (
        select d.kind, d.owner, d.require, d.priority, d.slots, pgrab_tool.memory_of(d.kind, d.args) as memory
        from pgrab_tool.due_until(statement_timestamp() - interval '2 s', '{scheduled}') d limit 2000) t
      group by 1, 2, 3, 5, 6, width_bucket(t.priority, '{-32768,0,1,10,100}'::smallint[])) x
    where pgrab_tool.able(x.kind, x.owner, x.require, x.priority, x.slots, x.memory) = '{}' limit 1)
  union all
  select 14, 'paused', 'tasks are taken', (select format('all tasks have been paused since %s by %s: %s',
      date_trunc('second', x.paused_at), x.paused_by, case when pgrab_tool.copied()
        then 'its tasks still run where it was copied from. pgrab adopt starts them here: only if the '
          'original is gone for good. Never pgrab resume --all for a test'
        else 'pgrab resume --all' end)
    from pgrab.cluster x where x.paused)
  union all
  select 15, 'drained nodes', 'none', coalesce(
    string_agg(x.name, ', ') filter (where x.state <> 'down') || ' drained: pgrab undrain NAME',
    'note: ' || string_agg(x.name, ', ') || ' drained, and down: before one is to take tasks again: pgrab '
      'undrain NAME')
  from pgrab.drained d join pgrab.node x on x.id = d.node_id
  union all
  select 16, 'failing', 'none', case when o.failing > 0
    then format('%s%s tasks are failing: select * from pgrab.failing', o.failing,
      case when o.failing >= 10000 then '+' else '' end) end
  from o
  union all
  select 17, 'overdue', 'none', case when o.overdue > 0
    then format('%s%s tasks are overdue: select * from pgrab.overdue', o.overdue,
      case when o.overdue >= 10000 then '+' else '' end) end
  from o
  union all
  select 18, 'alerts', 'none has failed', (select format(
    'an alert of %s could not be inserted: %s', x.of, x.fault)
    from (
      select 'task ' || i.task_id as of, i.since, i.fault from pgrab.incident i
      union all
      select 'node ' || i.node_id, i.since, i.fault from pgrab.node_incident i) x
    where x.fault is not null order by x.since desc limit 1)
  union all
  select 19, 'alert tasks', 'none is parked', (select format('%s alerts are parked, the last: %s', count(*),
    (array_agg(x.last_error order by x.id desc))[1])
    from pgrab.task x where x.source = 'pgrab.alert' and x.due_at is null and x.status = 'parked'
    having count(*) > 0)
  union all
  select 20, 'stopping', 'every run that was told to stop has ended', (select format(
    'task %s was told to stop %s ago and has not ended on node %s%s. It counts as running until then, so '
    'that it never runs twice at once: look for it on that machine, and end it there',
    l.task_id, date_trunc('second', statement_timestamp() - l.stopping_at), x.name,
    coalesce(', which waits for ' || l.waits_for, ''))
    from pgrab.live l join pgrab.node x on x.incarnation = l.incarnation
      join pgrab.task t on t.id = l.task_id and t.version = l.version and t.incarnation = l.incarnation
    where l.stopping_at < statement_timestamp() - interval '15 s' and t.status = 'running'
    order by l.stopping_at limit 1)
  union all
  select 21, 'handlers', 'every pool has a process',
    (select format('[pool %s] on %s has no process that takes tasks: %s', p.name, n.name,
      coalesce(p.fault, 'none has said hello yet'))
    from pgrab.pool p join pgrab.node n on n.id = p.node_id
    where p.up = 0 and n.live order by n.name, p.name limit 1)
  union all
  select 22, 'schemas', 'handlers of the same kind declare the same schema',
    (select format('the handlers of kind %s on %s declare different schemas, and the last to start counts: '
      'bring all to the same version', k.key, string_agg(distinct n.name, ', '))
    from pgrab.pool p join pgrab.node n on n.id = p.node_id cross join lateral jsonb_each(p.kinds) k
    where p.up > 0 and n.live
    group by k.key having count(distinct k.value) > 1 order by k.key limit 1)
  union all
  select 23, 'leases', 'every heartbeat comes in time',
    (select format('node %s had %s s of its lease left when it sent its last heartbeat, and the one before '
      'took %s s; without a lease it stops its runs: look for a slow database, network or machine',
      x.name, round(extract(epoch from x.lease_left), 1), round(extract(epoch from x.round_trip), 1))
    from pgrab.node x
    where x.live and (x.lease_left < x.heartbeat_every or x.round_trip > interval '1 s')
    order by x.lease_left limit 1)
  union all
  select 24, 'recording', 'every node can record what it runs',
    (select format('node %s cannot record starts or outcomes now, and takes no tasks until it can: its log '
      'says why', string_agg(x.name, ', ' order by x.name))
    from pgrab.node x where x.live and x.ill having count(*) > 0)
  union all
  select 25, 'shell and exec', coalesce((
    select case when c.roles then format('allowed for: %s, and the owner of pgrab', coalesce((
        select array_to_string((array_agg(r.rolname::text order by r.rolname))[1:10], ', ')
          || case when count(*) > 10 then ', ...' else '' end
        from pg_roles r where r.rolcanlogin and not r.rolsuper and exists (
          select from pg_roles k where k.rolname in ('pgrab_kind_shell', 'pgrab_kind_exec')
            and pg_has_role(r.oid, k.oid, 'USAGE'))), 'no other role'))
      else 'allowed for: every role that may insert a task' end
      || string_agg(format('; on %s they run as user %s', m.nodes, m.runs_as), '' order by m.nodes)
    from pgrab.cluster c cross join (
      select string_agg(n.name, ', ' order by n.name) as nodes,
        case when n.users ? 'run_as' then format('%s (run_as)', n.users ->> 'run_as')
          else format('%s, the user of the node itself (no run_as)', n.users ->> 'node') end
        || coalesce((select '; except for ' || string_agg(o.key || ': ' || o.value, ', ' order by o.key)
          from jsonb_each_text(n.users -> 'owners') o), '') as runs_as
      from pgrab.node n where n.live and n.kinds && '{shell,exec}'
      group by 2) m
    group by c.roles), 'no node runs them'), null
  union all
  select 26, 'held tasks', 'every one is found if its node dies', (select format(
      '%s tasks are held, the first is %s, although no claim of them is written down: did the server go back '
      'to an older state? Such tasks are searched for after a failover and once a day; at once after: '
      'update pgrab.duty set done_at = ''epoch'' where duty = ''strays''', count(*), min(t.id))
    from (
      select d.id, d.incarnation, d.status, d.claimed_at
      from pgrab_tool.due_until(statement_timestamp() - interval '30 s') d limit 200000) t
    where t.status in ('claimed', 'running') and t.claimed_at < statement_timestamp() - interval '30 s'
      and not exists (
        select from pgrab.hold h where h.incarnation = t.incarnation and t.id = any (h.ids))
    having count(*) > 0)) c
order by c.n
