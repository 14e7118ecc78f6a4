-- Why a run began late, as far as what was written down tells.
--
-- All are sets of rows, so that PostgreSQL makes one plan of them and the statement that lists the runs.

create or replace function pgrab_internal.late_until(r pgrab_internal.run)
returns table (until timestamptz, what text)
language sql stable
begin atomic
  select r.created_at, 'inserted'
  union all
  (select x.finished_at, 'waited for ' || coalesce(x.name, x.key, '#' || x.task_id)
  from (
    select y.finished_at, y.name, y.key, y.task_id from pgrab.run y
    where y.chain_id = r.chain_id and y.finished_at <= coalesce(r.started_at, r.claimed_at)
      and y.task_id = any (array( -- its parents; of a link that has ended, by its definition
        select p.parent_id from pgrab_internal.parents_of(r.task_id) p
        union all
        select (r.definition ->> 'parent_id')::bigint
        union all
        select (e.value ->> 'parent_id')::bigint from jsonb_array_elements(r.definition -> 'parents') e))
    offset 0) x -- by run_chain_idx
  order by x.finished_at desc limit 1)
  union all
  select (s.value ->> 'at')::timestamptz, format('waited for signal %s', s.value ->> 'name')
  from jsonb_array_elements(r.signals) s
  union all
  (select r.claimed_at, 'went on after its handler had waited'
  from pgrab.run x
  where x.task_id = r.task_id and x.fire_at = r.fire_at and x.outcome = 'waited'
    and x.finished_at <= coalesce(r.started_at, r.claimed_at) limit 1)
  union all
  select e.at, format('paused; %s resumed it', e.role)
  from pgrab.event e where e.task_id = r.task_id and e.what = 'resume' and e.at >= r.fire_at
  union all
  select e.at, format('all were paused; %s resumed them', e.role)
  from (
    select x.at, x.what, x.role from pgrab.event x
    where x.at >= r.fire_at and x.at <= coalesce(r.started_at, r.claimed_at) order by x.at desc limit 200) e
  where e.what = 'resume_all'
  union all
  select w.ends_at, format('blackout %s', w.name)
  from pgrab.task t cross join lateral pgrab_internal.closed_by(row(t.*)::pgrab_internal.task, r.fire_at) w
  where t.id = r.task_id and w.name is not null
  union all
  select n.started_at, format('%s was started', n.name)
  from pgrab.node n where n.id = r.node_id and n.incarnation = r.incarnation;
end;
comment on function pgrab_internal.late_until is 'What may have kept a run from its start, and until when.';

create or replace function pgrab_tool.run_slots(p_id bigint, p_definition jsonb) returns integer
language sql stable
return coalesce((p_definition ->> 'slots')::integer,
  (select t.slots from pgrab.task t where t.id = any (array[p_id])), 1);
comment on function pgrab_tool.run_slots is
  'How many slots a run took that has ended; of a schedule, as many as it takes now.';

create or replace function pgrab_internal.late_middle(r pgrab_internal.run) returns timestamptz
language sql stable
return (select d.due + (coalesce(r.started_at, r.claimed_at, r.finished_at) - d.due) / 2
  from (select greatest(r.fire_at, r.created_at) as due) d);
comment on function pgrab_internal.late_middle is
  'The middle of the time for which a run waited, or a fire that was missed.';

-- In the middle of its wait.  Reads the first 200 runs that ended after that moment.
create or replace function pgrab_internal.late_busy(r pgrab_internal.run, p_node text)
returns table (why text)
language sql stable
begin atomic
  select format('%s was busy: %s of %s', n.name, least(b.running, c.slots), c.slots)
  from pgrab.node n cross join lateral pgrab_tool.crew(n, r.kind) c
    cross join lateral (select pgrab_internal.late_middle(r) as middle offset 0) m
    cross join lateral (
      select sum(pgrab_tool.run_slots(x.task_id, x.definition)) as running
      from (
        select x.node, x.kind, coalesce(x.started_at, x.claimed_at) as began, x.task_id, x.definition
        from pgrab.run x
        where x.finished_at > m.middle order by x.finished_at limit 200) x
      where x.node = p_node and x.began <= m.middle
        and (x.kind = 'http') = (r.kind = 'http')) b
  where n.name = p_node and b.running + pgrab_tool.run_slots(r.task_id, r.definition) > c.slots;
end;
comment on function pgrab_internal.late_busy is
  'That a node had no worker free while a run waited. No row: it had, or nobody knows.';

create or replace function pgrab_internal.late_limit(r pgrab_internal.run) returns text
language sql stable
return coalesce(
  r.definition ->> 'limit_key', (select t.limit_key from pgrab.task t where t.id = r.task_id));
comment on function pgrab_internal.late_limit is
  'The limit that a run was under; of a task that has not ended, the one that it has now.';

-- Of the runs that ended after it, p_most; and of those in progress all.
create or replace function pgrab_tool.limit_held(p_key text, p_at timestamptz, p_most integer)
returns table (what text)
language sql stable
begin atomic
  select format('limit %s: %s of %s ran: %s', p_key, h.running, h.may, h.names)
  from (
    select count(*) as running, min(x.may) as may, string_agg(case when x.no <= 3
      then concat_ws(' ', x.name, '#' || x.task_id) end, ', ' order by x.no) as names
    from (
      select n.name, n.task_id, m.may, row_number() over (order by n.began, n.task_id) as no
      from (select l.max_running as may from pgrab_internal.limit_of(p_key) l) m cross join lateral (
        select e.task_id, coalesce(e.name, e.key) as name, e.began
        from (
          select y.task_id, y.name, y.key, y.definition, coalesce(y.started_at, y.claimed_at) as began
          from pgrab.run y where y.finished_at > p_at order by y.finished_at limit p_most) e
        where e.began <= p_at and coalesce(e.definition ->> 'limit_key',
          (select t.limit_key from pgrab.task t where t.id = e.task_id)) = p_key
        union all
        select t.id, coalesce(t.name, t.key), t.started_at from pgrab_tool.in_hand() t
        where t.status = 'running' and t.limit_key = p_key and t.started_at <= p_at) n
      where m.may is not null) x) h
  where h.running >= h.may;
end;
comment on function pgrab_tool.limit_held is
  'Who had the places of a limit at that moment, if all were taken. No row: some were free, or nobody knows.';

-- Of all that kept it the last counts, if it did so for half of the time.
create or replace function pgrab_tool.why_late(p_id bigint, p_version bigint, p_finished timestamptz)
returns table (why text, why_at text)
language sql stable
begin atomic
  select case when u.until - r.fire_at >= (coalesce(r.started_at, r.claimed_at) - r.fire_at) / 2
    then format('%s at %s', u.what, to_char(u.until, 'HH24:MI:SS'))
    else concat_ws('; ', case when w.free > w.held
        then format('no node took it for %s%s', date_trunc('second', w.free),
          case when h.what is null then ' (limit ' || w.key || ')' end)
        else format('%s had it for %s', r.node, date_trunc('second', w.held)) end,
      coalesce(case when w.free > w.held then h.what end, b.why)) end,
    to_char(pgrab_internal.late_middle(row(r.*)::pgrab_internal.run), 'YYYY-MM-DD"T"HH24:MI:SSOF')
  from pgrab.run r left join lateral (
    select x.until, x.what from pgrab_internal.late_until(row(r.*)::pgrab_internal.run) x
    where x.until > r.fire_at and x.until <= coalesce(r.started_at, r.claimed_at)
    order by x.until desc limit 1) u on true
    cross join lateral ( -- how long no node took it, or its node let it wait
      select r.claimed_at - greatest(r.fire_at, r.created_at) as free,
        r.started_at - greatest(r.claimed_at, r.fire_at, r.created_at) as held,
        pgrab_internal.late_limit(row(r.*)::pgrab_internal.run) as key) w
    left join lateral pgrab_internal.late_busy(row(r.*)::pgrab_internal.run, r.node) b on true
    left join lateral pgrab_tool.limit_held(
      w.key, pgrab_internal.late_middle(row(r.*)::pgrab_internal.run), 2000) h on true
  where r.task_id = p_id and r.version = p_version and r.finished_at = p_finished and r.attempt = 1
    and coalesce(r.started_at, r.claimed_at) > r.fire_at + interval '2 s'
  union all
  select string_agg(b.why, ', '),
    to_char(min(pgrab_internal.late_middle(row(r.*)::pgrab_internal.run)), 'YYYY-MM-DD"T"HH24:MI:SSOF')
  from pgrab.run r cross join lateral (
    select n.name from pgrab.node n
    where pgrab_internal.runs(n.kinds, n.owners, n.bounds, r.kind, r.owner) order by n.name limit 5) n
    cross join lateral pgrab_internal.late_busy(row(r.*)::pgrab_internal.run, n.name) b
  where r.task_id = p_id and r.version = p_version and r.finished_at = p_finished and r.outcome = 'missed'
  having count(*) > 0;
end;
comment on function pgrab_tool.why_late is
  'Why a run began more than two seconds late, from what was recorded; of a fire that was missed, which '
  'nodes were busy; and the middle of its wait, in the zone of the session. No row: it did not, or was no '
  'first attempt.';

create or replace function pgrab_tool.kept_at(
  p_id bigint, p_version bigint, p_finished timestamptz, p_at timestamptz)
returns table (since timestamptz, what text, limit_key text)
language sql stable
begin atomic
  select greatest(r.fire_at, u.last), u.what, pgrab_internal.late_limit(row(r.*)::pgrab_internal.run)
  from pgrab.run r cross join lateral (
    select max(x.until) filter (where x.until <= p_at and x.what <> 'inserted') as last,
      (array_agg(x.what order by x.until desc) filter (where x.until > p_at))[1] as what
    from pgrab_internal.late_until(row(r.*)::pgrab_internal.run) x
    where x.until > r.fire_at and x.until <= coalesce(r.started_at, r.claimed_at)) u
  where r.task_id = p_id and r.version = p_version and r.finished_at = p_finished;
end;
comment on function pgrab_tool.kept_at is
  'What kept a run from its start at that moment, as far as something was recorded that let it go later; '
  'since when it did or could have; and the limit that it was under.';

create or replace function pgrab_tool.after_lost(p_id bigint, p_fire timestamptz, p_finished timestamptz)
returns text
language sql stable
return coalesce((
    select format('ran again on %s at %s: %s', x.node,
      date_trunc('second', coalesce(x.started_at, x.claimed_at)), x.outcome)
    from pgrab.run x
    where x.task_id = p_id and x.finished_at > p_finished and x.finished_at < p_finished + interval '7 days'
      and x.fire_at = p_fire and x.outcome <> 'lost'
    order by x.finished_at limit 1), (
    select case when t.status = 'parked' then 'parked'
      when t.status = 'running' then format('runs again on %s since %s', (
        select n.name from pgrab.node n where n.id = t.node_id), date_trunc('second', t.started_at))
      when t.due_at is not null then format('to run again at %s', date_trunc('second', t.due_at)) end
    from pgrab.task t where t.id = p_id and t.fire_at = p_fire), 'not run again');
comment on function pgrab_tool.after_lost is
  'What became of a fire whose run was lost at that time, for people.';
