-- "Why is it not running?", and what comes next.
--
-- Lists each gate that a task must pass before it runs, in order, with its verdict: ok; waits (time, other
-- tasks or a signal will open it); blocked (a person must open it, and the detail says how).  The first that
-- is shut is what lists say of the task (pgrab.late.why).

-- why: set when it is shut; the detail in a few words, for lists.  detail: null: for lists only.
create type pgrab_internal.gate as (gate text, verdict text, detail text, why text);
comment on type pgrab_internal.gate is 'One gate between a task and its run.';

create or replace function pgrab_internal.cut(p_at timestamptz) returns timestamptz
language sql immutable parallel safe
return date_bin('1 s', p_at, 'epoch');
comment on function pgrab_internal.cut is 'A time without fractions of a second.';

create or replace function pgrab_internal.explain_ended(p_seen bigint, p_id bigint, p_by text)
returns setof pgrab_internal.gate
language plpgsql stable as $$
declare
  r pgrab_internal.run;
  e record;
begin
  select * into r from pgrab.last_run(p_seen, 'ended');
  if found then
    return query select 'ended', 'blocked', format('It has ended: %s, %s at %s%s.%s Insert a new task to run '
      'it again; `pgrab show %s` shows its definition.', r.ended, r.outcome,
      pgrab_internal.cut(r.finished_at), ': ' || r.error,
      case when r.definition ->> 'schedule' is not null and r.outcome <> 'cancelled'
        then format(' No fire of its schedule is left (%s).', concat_ws(', ',
          'max_runs ' || (r.definition ->> 'max_runs'), 'ends_at ' || (r.definition ->> 'ends_at'))) end,
      p_id), null;
    return;
  end if;
  select x.role, x.at into e from pgrab.event x
  where x.task_id = p_id and x.what = 'delete'
    and (x.owner = p_by or pgrab_internal.is_member(p_by, pgrab_internal.pgrab_owner()))
  order by x.at desc limit 1;
  if not found then
    perform pgrab_tool.no_task(p_id);
  end if;
  return query select 'deleted', 'blocked', format('%s deleted it at %s: select pgrab.undelete(%s) brings it '
    'back if its definition was kept.', e.role, pgrab_internal.cut(e.at), p_id), null;
end $$;
comment on function pgrab_internal.explain_ended is 'The gates of a task that has ended, or was deleted.';

create or replace function pgrab_internal.explain_running(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'running', 'ok', format('Running on %s since %s, attempt %s of %s; stopped after %s.%s',
    coalesce(n.name, 'a node that is gone'), pgrab_internal.cut(t.started_at), t.attempt, t.max_attempts,
    t.timeout, ' Asked to stop by ' || c.asked_by || '.'), null
  from (select) one left join pgrab.node n on n.id = t.node_id
    left join pgrab.cancel_request c on c.task_id = t.id and c.version = t.version
  union all
  select 'node', 'waits', 'Its node has died or is silent; others take the task over when it has been silent '
    'for its dead_after.', null
  where not exists (select from pgrab.node n
    where n.id = t.node_id and n.incarnation = t.incarnation and n.live)
  union all
  -- Several transactions of one owner may run on a node: it is one that began when the run did.
  (select 'lock', 'waits', format('Session %s, which runs it%s, has waited since %s for a lock of session %s '
    '(%s%s): let that commit, or select pg_terminate_backend(%s).', a.pid,
    case when a.n > 1 then ' or another that began then' end, pgrab_internal.cut(a.query_start), b.pid,
    b.usename, ', ' || nullif(b.application_name, ''), b.pid), 'waits for a lock of session ' || b.pid
  from (
    select x.pid, x.query_start, x.xact_start, x.wait_event_type, count(*) over () as n
    from pg_stat_activity x
    where t.kind = 'sql' and x.datname = current_database() and x.usename = t.owner
      and x.application_name = 'pgrab sql ' || t.incarnation
      and x.xact_start between t.started_at - interval '1 s' and t.started_at + interval '2 s'
    order by x.wait_event_type is distinct from 'Lock', x.xact_start limit 1) a
    join pg_stat_activity b on b.pid = any (pg_blocking_pids(a.pid))
  where a.wait_event_type = 'Lock'
  order by b.xact_start limit 1);
end;
comment on function pgrab_internal.explain_running is 'The gates of a running task.';

create or replace function pgrab_internal.explain_row(t pgrab_internal.task) returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'parked', 'blocked', format('%s: %s. select pgrab.retry(%s) tries it again.',
      case when pgrab_internal.in_vain(t) then 'Its wait was in vain'
        when t.delivery = 'at_most_once' then 'It is at_most_once, and has been tried'
        else format('Out of attempts (%s of %s)', t.attempt, t.max_attempts) end, f.reason, t.id),
    format('parked after %s: %s', case when pgrab_internal.in_vain(t) then 'its wait'
        when t.delivery = 'at_most_once' then 'its only attempt (at_most_once)'
        else format('%s of %s attempts', t.attempt, t.max_attempts) end, f.reason)
  from (select coalesce(t.last_error, t.last_outcome, 'no reason given') as reason) f
  where t.status = 'parked'
  union all
  select 'parked', 'ok', format('%s of %s attempts for this fire used.', t.attempt, t.max_attempts), null
  where t.status <> 'parked'
  union all
  select 'paused', case when t.paused then 'blocked' else 'ok' end,
    case when t.paused then format('Paused: select pgrab.resume(%s) resumes it.', t.id)
      else 'Not paused.' end, case when t.paused then 'paused' end
  union all
  select 'kind', 'blocked', case when r.there
      then format('%s may not have tasks of kind %s any more: grant %I to %I.', t.owner, t.kind,
        'pgrab_kind_' || t.kind, t.owner)
      else format('There is no role %s: it was dropped or renamed. The role that owns pgrab can give the '
        'task to another one, in the column owner of its row.', t.owner) end,
    case when r.there then format('%s may not have tasks of kind %s any more', t.owner, t.kind)
      else format('there is no role %s', t.owner) end
  from (select exists (select from pg_roles x where x.rolname = t.owner) as there) r
  where not pgrab_internal.may_kind(t.owner, t.kind)
  union all
  select 'all paused', 'blocked', format('All tasks have been paused since %s by %s: %s',
    pgrab_internal.cut(c.paused_at), c.paused_by, case when pgrab_tool.copied()
      then 'they still run where it was copied from. Only if that is gone for good, select pgrab.adopt().'
      else 'select pgrab.resume_all() resumes them.' end), 'all tasks are paused'
  from pgrab.cluster c where c.paused;
end;
comment on function pgrab_internal.explain_row is 'The gates of its own row, and the pause of all tasks.';

-- What a window holds already is due later, and asks whether that window is still on.
create or replace function pgrab_internal.explain_blackout(t pgrab_internal.task)
returns setof pgrab_internal.gate
language plpgsql stable as $$
declare
  c_held constant boolean := pgrab_internal.is_put_off(t);
  w constant pgrab_internal.closure := pgrab_internal.closed_by(t, case when c_held then clock_timestamp()
    else greatest(t.due_at, t.fire_at, clock_timestamp()) end);
begin
  if w.name is not null then
    return query select 'blackout', 'waits', format('Blackout %s %s until %s%s. select '
        'pgrab.delete_blackout(%1$L) ends it.', w.name,
        case w.action when 'hold' then 'holds it' else 'skips its fires' end, pgrab_internal.cut(w.ends_at),
        ': ' || w.note),
      format('blackout %s until %s', w.name, pgrab_internal.cut(w.ends_at));
  elsif c_held then
    return query select 'blackout', 'ok', 'A blackout has held it. What was held comes in order, one after '
      'the other.', null;
  end if;
end $$;
comment on function pgrab_internal.explain_blackout is 'The gate of blackouts.';

-- Who asks must be allowed to see the sessions of others (pg_read_all_stats).
create or replace function pgrab_tool.lockers(p_most integer)
returns table (pid integer, who text, runs bigint, since timestamptz)
language sql stable
begin atomic
  select b.pid, format('%s%s', b.usename, ', ' || nullif(b.application_name, '')), count(*),
    pgrab_internal.cut(min(a.query_start))
  from (
    select x.pid, x.query_start from pg_stat_activity x
    where x.datname = current_database() and x.application_name like 'pgrab sql %'
      and x.wait_event_type = 'Lock' and x.query_start < statement_timestamp() - interval '5 s'
    order by x.query_start limit 20) a
    cross join lateral unnest(pg_blocking_pids(a.pid)) l(pid) join pg_stat_activity b on b.pid = l.pid
  group by 1, 2 order by 4 limit p_most;
end;
comment on function pgrab_tool.lockers is
  'Sessions that hold a lock for which runs have waited for five seconds: how many, and since when.';

-- Looked at last, because it is dear: the locks of the server are read for it.  Does not see locks that
-- several sessions hold at once: then xmax is a MultiXactId, which SQL cannot resolve.
create or replace function pgrab_internal.explain_held_up(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'durability', 'blocked', format('at_most_once, and %s.', m.why), 'at_most_once, and ' || m.why
  from (select pgrab_internal.may_lose(false) as why where t.delivery = 'at_most_once') m
  where m.why is not null
  union all
  select 'row', 'blocked', format('Session %s (%s%s) has locked its row since %s: let it commit, or select '
    'pg_terminate_backend(%s).', l.pid, l.usename, ', ' || nullif(l.application, ''),
    pgrab_internal.cut(l.since), l.pid), 'its row is locked by session ' || l.pid
  from (
    select a.pid, a.usename, a.application_name as application, a.xact_start as since
    from (select x.xmax from pgrab.task x where x.id = t.id and x.xmax <> '0') x
      join pg_locks k on k.locktype = 'transactionid' and k.transactionid = x.xmax and k.granted
      join pg_stat_activity a on a.pid = k.pid
    where a.pid <> pg_backend_pid() and a.xact_start < statement_timestamp() - interval '1 s') l
  union all
  select 'row', 'blocked', format('The server did not answer, or refused, when %s tried to take it: a '
    'trigger on pgrab.task? The log of that node says which. It is tried again from time to time, by '
    'itself.', d.by), 'the server does not answer when it is taken: see pgrab.explain()'
  from (
    select string_agg(n.name, ', ' order by n.name) as by
    from pgrab.node n where n.live and t.id = any (n.doubts)) d
  where d.by is not null;
end;
comment on function pgrab_internal.explain_held_up is
  'What the server, or somebody in it, has against its start.';

create or replace function pgrab_internal.explain_parents(t pgrab_internal.task, p_all boolean)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  (select 'parent ' || pgrab_internal.called(a.parent_id, s.name, p.key),
    case when s.ended is null and p.paused then 'blocked' when s.ended is null then 'waits'
      when pgrab_internal.run_if_met(a.run_if, s.ended) then 'ok' else 'blocked' end,
    case when s.ended is null and p.paused then format('Starts after its %s; it is paused: select '
        'pgrab.resume(%s) resumes it.', a.run_if, a.parent_id)
      when s.ended is null then format('Starts after its %s; it is %s%s.', a.run_if, p.status,
        case when p.status = 'waiting' then ' itself' else '' end)
      when s.ended = 'parked' then format('It failed: %s. select pgrab.retry(%s) tries it again.',
        coalesce(p.last_error, p.last_outcome), a.parent_id)
      else format('It has ended: %s; required: %s.', s.ended, a.run_if) end, null
  from pgrab_internal.parents_of(t.id) a left join pgrab.task p on p.id = a.parent_id
    cross join lateral (
      select pgrab_internal.parent_status(a.parent_id) as ended, case when p.id is not null then p.name
        else (select r.name from pgrab.last_run(a.parent_id) r) end as name
      offset 0) s -- asked once
  where p_all order by a.parent_id)
  union all
  select 'parents', 'waits', null, 'waiting for ' || string_agg(coalesce(p.name, p.key, '#' || p.id)
    || case when p.paused then ' (paused)' when p.status = 'parked' then ' (parked)' else '' end, ', '
    order by p.id)
  from pgrab_internal.parents_of(t.id) a join pgrab.task p on p.id = a.parent_id
  where t.status = 'waiting' and t.needs is not null
    and (p.status = 'parked' or not pgrab_internal.ended(p.status))
  having count(*) > 0;
end;
comment on function pgrab_internal.explain_parents is
  'The gates of the parents of a link; p_all: one by one, too.';

create or replace function pgrab_internal.explain_chain(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'chain', 'waits', format('Its chain is running, and fires again when the run has ended: %s of its '
    'links have not (%s%s).', count(*),
    string_agg(left(pgrab_internal.called(x.id, x.name, x.key), 40), ', ' order by x.id)
      filter (where x.n <= 3), case when count(*) > 3 then ', ...' end), null
  from (
    select l.id, l.name, l.key, row_number() over (order by l.id) as n
    from pgrab.task l where l.chain = t.chain and l.needs is not null) x
  where pgrab_internal.is_over(t.status) and t.schedule is not null having count(*) > 0
  union all
  select 'chain', case when t.status = 'waiting' then 'waits' else 'blocked' end,
    case t.status when 'waiting' then 'The chain is running; this link joins it at its next fire.'
      when 'skipped' then 'It is skipped in this run of its chain: a parent did not end as it asks.'
      else format('It has ended in this run of its chain: %s.', t.status) end,
    case t.status when 'waiting' then 'joins the chain at its next fire' end
  where pgrab_internal.is_over(t.status) and t.schedule is null
    or t.status = 'waiting' and t.needs is null and t.chain is not null
  union all
  select 'chain', 'waits', null, t.status || ' in this run of its chain'
  where pgrab_internal.is_over(t.status);
end;
comment on function pgrab_internal.explain_chain is 'The gate of its chain.';

create or replace function pgrab_internal.explain_signal(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'signal', case when s.at is null then 'waits' else 'ok' end,
    case when s.at is not null
        then format('Signal %L came at %s, from %s.', n.name, pgrab_internal.cut(s.at), s.role)
      else format('%s for signal %L%s: select pgrab.signal(%s, %L) sends it%s.',
        case when w.goes_on then format('Its handler waits since %s', pgrab_internal.cut(w.since))
          else 'Waits' end,
        n.name, ' until ' || pgrab_internal.cut(w.until), t.id, n.name,
        '; so may members of ' || t.signal_by || case when not exists (
          select from pg_catalog.pg_roles r where r.rolname = t.signal_by) then ', a role that does not exist'
        else '' end) end,
    case when s.at is null then format('waits for signal %L', n.name) end
  from (select) one left join pgrab.wait w on w.task_id = t.id
    cross join lateral (select case when w.goes_on then w.name else t.wait_for end as name) n
    left join pgrab.signal s on s.task_id = t.id and s.name = n.name
  where n.name is not null and not pgrab_internal.ended(t.status);
end;
comment on function pgrab_internal.explain_signal is 'The gate of its signal.';

create or replace function pgrab_internal.explain_answer(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'answer', 'waits', format('Its request was accepted, attempt %s of %s, sent by %s; waits for the '
      'answer until %s%s%s.', t.attempt, t.max_attempts, coalesce(n.name, 'a node that is gone'),
      pgrab_internal.cut(w.until), '; the receiver was last heard of at ' || pgrab_internal.cut(w.beat_at),
      concat(', at ' || w.progress || ' %', ': ' || w.progress_text)),
    'waits for the answer to its request' || coalesce(' (' || w.progress || ' %)', '')
  from (select) one left join pgrab.wait w on w.task_id = t.id
    left join pgrab.node n on n.id = t.node_id
  where pgrab_internal.awaits(t.status, t.incarnation);
end;
comment on function pgrab_internal.explain_answer is 'The gate of the answer to its request.';

create or replace function pgrab_internal.explain_due(t pgrab_internal.task, p_all boolean)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'schedule', 'ok', format('%s (%s), carried out %s times%s%s%s', t.schedule, t.timezone,
    t.fires || coalesce(' of ' || t.max_runs, ''), ', not before ' || t.starts_at,
    ', not after ' || t.ends_at, case when t.last_outcome not in ('succeeded', 'missed')
      then format('; the last run: %s%s', t.last_outcome, ', ' || t.last_error) end), null
  where t.schedule is not null
  union all
  select 'calendar', case when d.open then 'ok' else 'waits' end, case
      when d.open then format('Today is open in calendar %s.', t.calendar)
      else format('Today, %s.', pgrab_internal.closed_why(t.calendar, d.today)) end
    || case t.on_closed when 'skip' then ' Fires on closed days are skipped.'
      else format(' Fires on closed days move to the %s open day.', t.on_closed) end, null
  from (
    select x.today, pgrab_internal.day_open(t.calendar, x.today) as open
    from (select pgrab_internal.local_day(t.timezone, statement_timestamp()) as today) x) d
  where t.calendar is not null and t.schedule is not null
  union all
  select 'missed', 'waits', format('Its fire of %s was missed: %s (%s; misfire: %s).',
    pgrab_internal.cut(m.fire_at), m.error, t.misfire_after, t.misfire), null
  from pgrab.last_run(t.id) m
  where p_all and m.outcome = 'missed'
  union all
  select 'due', case when d.at <= statement_timestamp() then 'ok' else 'waits' end,
    case when d.at <= statement_timestamp() then format('Due since %s.', pgrab_internal.cut(d.at))
      when t.attempt > 0 then format('Attempt %s is due in %s (%s); the last one: %s.%s', t.attempt + 1,
        d.wait, pgrab_internal.cut(d.at), coalesce(t.last_error, t.last_outcome), d.sooner)
      else format('Planned for %s, in %s%s.%s', t.fire_at, d.wait,
        case when pgrab_internal.is_put_off(t) then ', after a blackout'
          when t.due_at > t.fire_at then ', jitter included' else '' end, d.sooner) end,
    case when t.due_at > statement_timestamp() then case when t.attempt = 0 then 'due in '
      else format('attempt %s of %s is due in ', t.attempt + 1, t.max_attempts) end || d.wait end
  from (
    select coalesce(t.due_at, t.fire_at) as at,
      date_trunc('second', coalesce(t.due_at, t.fire_at) - statement_timestamp()) as wait,
      case when t.paused or (pgrab_internal.closed_by(t, statement_timestamp())).name is not null then ''
        else format(' select pgrab.run_now(%s) runs it now.', t.id) end as sooner) d;
end;
comment on function pgrab_internal.explain_due is 'Its schedule, its calendar, and when it is due.';

-- p_all: the line is counted, too; who is in it waits.
create or replace function pgrab_internal.explain_limit(t pgrab_internal.task, p_all boolean)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'limit', v.verdict,
    case when l.key is null then format('Limit %s no longer exists, so it does not count.', t.limit_key)
      when not f.its then format('Limit %s is not for tasks of %s, so it does not count.', l.key, t.owner)
      when l.max_running = 0 then format('%s lets nothing run: update pgrab.limit set max_running = 1 '
        'where key = %L.', l.key, l.key)
      when b.until is not null then format('%s %s. %s', l.key,
        pgrab_internal.limit_after(x), case when b.until > clock_timestamp()
          then format('Nothing starts before %s, then one run at a time, until one succeeds.',
            pgrab_internal.cut(b.until))
          else 'One run at a time may try, until one succeeds.' end)
      else format('%s: %s run%s%s.', l.key, u.running, ' of ' || l.max_running,
        ', at most ' || l.per_second || ' starts per second')
        || case when p.kept then ' A place is kept for it.' else '' end
        || case when p.kept or s.next is null then ''
          else format(' The next start is at %s.', pgrab_internal.cut(s.next)) end
        || case when t.line = t.limit_key then format(' It has been in line since %s; %s wait there.',
            pgrab_internal.cut(t.fire_at), case when w.before > 10000 then '10000+' else w.before::text end)
          else '' end
        || coalesce(' Running under it: ' || h.names || '.', '') end,
    case v.verdict when 'blocked' then format('limit %s lets nothing run (max_running 0)', l.key)
      when 'waits' then case when b.until is null then format('waits for a place under limit %s', l.key)
        else format('limit %s %s', l.key, pgrab_internal.limit_after(x)) end end
  from (select) one left join lateral pgrab_internal.limit_of(t.limit_key) l on true
    cross join lateral ( -- who is in line stays there until a place is free, whosever the limit is by then
      select coalesce(t.line = t.limit_key, false) or pgrab_internal.is_for(l.owner, t.owner) as its) f
    left join lateral pgrab_internal.limit_latest(l.key) x on true
    cross join lateral pgrab_internal.limit_broken(l, x) b(until)
    cross join lateral (select count(*) filter (where x.started and not x.over) as running
      from pgrab.limit_place x where x.key = t.limit_key) u
    cross join lateral (
      select string_agg(format('%s since %s', case when y.owner = t.owner
          then concat_ws(' ', y.name, '#' || y.id) else 'a task of somebody else' end,
        pgrab_internal.cut(x.at)), ', ' order by x.at) as names
      from (
        select z.* from pgrab.limit_place z
        where p_all and z.key = t.limit_key and z.started and not z.over order by z.at limit 3) x
        left join pgrab.task y on y.id = any (array[x.task_id])) h
    cross join lateral (select exists (select from pgrab.limit_place x
      where x.key = t.limit_key and x.task_id = t.id and not x.over) as kept) p
    cross join lateral (select count(*) as before from (
      select from pgrab.task x
      where x.line = t.limit_key and x.due_at is null and not x.paused
      limit case when p_all then 10001 when t.line is not null then 0 else 1 end) x) w
    left join lateral (
      select r.first as next from pgrab_internal.limit_room(l, x) r
      where l.per_second is not null and (p_all or t.line is null)
        and r.first > clock_timestamp() + interval '10 ms') s on true
    cross join lateral (
      select case when l.key is null or not f.its or p.kept then 'ok' when l.max_running = 0 then 'blocked'
        when (t.due_at is not null or t.line <> t.limit_key) and w.before = 0
          and u.running < coalesce(pgrab_internal.limit_most(l, x), u.running + 1)
          and s.next is null then 'ok'
        else 'waits' end as verdict) v
  where t.limit_key is not null;
end;
comment on function pgrab_internal.explain_limit is 'The gate of its limit.';

create or replace function pgrab_internal.explain_quota(t pgrab_internal.task, p_all boolean)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'quota', v.verdict,
    case when t.line = k.held then format('%s holds it: %s%s.', k.whose, concat_ws(' and ',
        'at most ' || q.max_tasks || ' due or running',
        'at most ' || q.inserts_per_minute || ' inserted per minute', case when
          num_nonnulls(q.max_tasks, q.inserts_per_minute) = 0 then 'until the next second' end), k.since)
      when q.max_running = 0 then format('%s lets nothing run: update pgrab.quota set max_running = 1 where '
        'id = %s.', k.whose, q.id)
      else format('%s: %s of %s run.', k.whose, u.running, q.max_running)
        || case when p.kept then ' A place is kept for it.'
          when t.line = k.key then format(' It waits in line%s.', k.since) else '' end end,
    case when v.verdict = 'ok' then null when t.line = k.held then format('%s holds it', k.whose)
      when v.verdict = 'blocked' then format('%s lets nothing run (max_running 0)', k.whose)
      else format('waits for a place under %s', k.whose) end
  from pgrab_internal.quota_of(t.owner, t.share_key) q
    cross join lateral (
      select case when q.share_key is not null then t.share_key end as share_key,
        concat('quota of ', t.owner, ', share_key ' || case when q.share_key is not null
          then t.share_key end) as whose,
        format(', since %s; %s wait there', pgrab_internal.cut(t.fire_at), (
          select case when count(*) > 10000 then '10000+' else count(*)::text end from (
            select from pgrab.task x where x.line = t.line and x.due_at is null and not x.paused
            limit case when p_all then 10001 else 0 end) x)) as since) w
    cross join lateral (
      select pgrab_internal.quota_key(t.owner, w.share_key) as key,
        pgrab_internal.quota_held(t.owner, w.share_key) as held, w.whose, w.since) k
    cross join lateral (select count(*) filter (where x.started and not x.over) as running
      from pgrab.limit_place x where x.key = k.key) u
    cross join lateral (select exists (select from pgrab.limit_place x
      where x.key = k.key and x.task_id = t.id and not x.over) as kept) p
    cross join lateral (
      select case when t.line = k.held then 'waits' when p.kept then 'ok'
        when q.max_running = 0 then 'blocked'
        when t.line = k.key or u.running >= q.max_running then 'waits' else 'ok' end as verdict) v
  where q.max_running is not null or t.line = k.held;
end;
comment on function pgrab_internal.explain_quota is 'The gates of its quotas.';

-- What able() asks of a node, and its reasons.  suits: it is up and made for it; can: and has the room.
create or replace function pgrab_internal.fit(
  t pgrab_internal.task, n pgrab.node, out up boolean, out login boolean, out runs boolean,
  out labels boolean, out priority boolean, out suits boolean, out can boolean, out running bigint,
  out slots bigint, out small text, out full text)
language sql stable
begin atomic
  select f.up, f.login, f.runs, f.labels, f.priority, s.suits,
    s.suits and f.priority and w.small is null, w.running, w.slots, w.small, w.full
  from pgrab_tool.room_for(n, t.kind, t.slots, pgrab_tool.memory_of(t.kind, t.args)) w
    cross join lateral (
      select n.state = 'up' and n.live as up, n.labels @> t.require as labels,
        t.kind <> 'sql' or t.owner = any (n.owners) as login,
        pgrab_internal.runs(n.kinds, n.owners, n.bounds, t.kind, t.owner) as runs,
        t.priority >= coalesce(n.min_priority, t.priority) as priority) f
    cross join lateral (select f.up and f.runs and f.labels as suits) s;
end;
comment on function pgrab_internal.fit is 'Can this node run the task, and if not, what is in the way?';

create or replace function pgrab_internal.explain_node(t pgrab_internal.task, n pgrab.node)
returns pgrab_internal.gate
language sql stable
begin atomic
  select 'node ' || n.name,
    case when not (f.runs and f.labels and f.priority) or f.small is not null
        or not n.live and n.state <> 'draining' then 'blocked'
      when n.state = 'draining' then case when d.asked_by is not null then 'blocked' else 'waits' end
      when n.ill or f.full is not null then 'waits' else 'ok' end,
    case when n.state = 'down' then 'It is down.'
      when not n.live then format('It has been silent for %s.',
        date_trunc('second', statement_timestamp() - n.heartbeat_at))
      when not t.kind = any (n.kinds) then format('It does not run kind %s (its allow: %s).', t.kind,
        array_to_string(n.kinds, ', '))
      when not f.login then format('It has no connection for owner %s (it has one for %s).', t.owner,
        array_to_string(n.owners, ', '))
      when not f.runs then format('It does not run kind %s for owner %s.', t.kind, t.owner)
      when not f.labels then format('Its labels %s do not contain %s.%s', n.labels, t.require,
        ' They were set in pgrab.node; its own are ' || (n.own ->> 'labels') || '.')
      when not f.priority then format('It takes only tasks of priority %s and above (its min_priority).',
        n.min_priority)
      when f.small is not null then f.small || '.'
      when d.asked_by is not null then format(
        'Draining, by order of %s; select pgrab.undrain(%L) ends that.', d.asked_by, n.name)
      when n.state = 'draining' then 'It is stopping.'
      when n.ill then 'It cannot record runs now, so it takes no tasks: see its log.'
      when f.slots = 0 then 'No process that handles it is up.'
      when f.full is not null then f.full || '.'
      else format('Free: %s of %s in use.', f.running, f.slots) end, null
  from pgrab_internal.fit(t, n) f left join pgrab.drained d on d.node_id = n.id;
end;
comment on function pgrab_internal.explain_node is 'Can this node run the task, and if not, why?';

create or replace function pgrab_tool.able(
  p_kind text, p_owner text, p_require jsonb, p_priority smallint, p_slots integer, p_memory bigint)
returns text[]
language sql stable
begin atomic
  select coalesce(array_agg(n.name order by n.name), '{}') from pgrab.node n
  where n.state = 'up' and n.live and n.labels @> p_require
    and p_priority >= coalesce(n.min_priority, p_priority)
    and pgrab_internal.runs(n.kinds, n.owners, n.bounds, p_kind, p_owner)
    and pgrab_internal.has_room(n.room, n.memory, p_kind, p_slots, p_memory);
end;
comment on function pgrab_tool.able is
  'The nodes that could run such a task: up and alive, with its kind and its labels, not reserved for more '
  'important ones, and with room for its slots and its memory.';

create or replace function pgrab_internal.able(t pgrab_internal.task) returns text[]
language sql stable
return pgrab_tool.able(
  t.kind, t.owner, t.require, t.priority, t.slots, pgrab_tool.memory_of(t.kind, t.args));
comment on function pgrab_internal.able is 'The nodes that could run this task.';

create or replace function pgrab_internal.takes(t pgrab_internal.task) returns text
language sql stable
return concat_ws(' and ', t.slots || case t.slots when 1 then ' slot' else ' slots' end,
  pg_size_pretty(pgrab_tool.memory_of(t.kind, t.args)) || ' of memory');
comment on function pgrab_internal.takes is 'The room that it takes, for people.';

create or replace function pgrab_internal.explain_pools(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'pool ' || p.name, case when p.up = 0 then 'blocked' else 'ok' end,
    format('On %s, %s of %s processes are up.', n.name, p.up, p.processes)
      || coalesce(' Last fault: ' || p.fault, ''), null
  from pgrab.pool p join pgrab.node n on n.id = p.node_id
  where p.kinds ? t.kind and n.state <> 'down'
  order by n.name, p.name;
end;
comment on function pgrab_internal.explain_pools is
  'The gates of pools of handlers: the processes that handle its kind, on every node that has some.';

-- The first of these that holds is the reason.
create or replace function pgrab_internal.explain_cluster(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'nodes', case when m.detail is null then 'waits' else 'blocked' end, m.detail, m.why
  from (
    select count(*) as live, count(*) filter (where f.up) as up, count(*) filter (where f.runs) as runs,
      count(*) filter (where f.up and t.kind = any (n.kinds)) as up_kind,
      count(*) filter (where f.up and f.login) as up_login,
      count(*) filter (where f.up and f.runs) as up_runs,
      count(*) filter (where f.up and f.labels) as up_labels,
      count(*) filter (where not f.up and f.runs and f.labels and f.priority and f.small is null) as drained,
      count(*) filter (where f.suits and not f.priority and f.small is null) as low,
      min(n.min_priority) filter (where f.suits and not f.priority and f.small is null) as reserved,
      string_agg(format('%s: %s', n.name, f.small), '; ' order by n.name)
        filter (where f.suits and f.small is not null) as small,
      count(*) filter (where f.can) as fit, count(*) filter (where f.can and not n.ill) as well,
      string_agg(n.name, ', ' order by n.name) filter (where f.can) as names,
      sum(f.slots) filter (where f.can) as slots,
      count(*) filter (where f.can and f.full is null) as free
    from pgrab.node n cross join lateral pgrab_internal.fit(t, n) f
    where n.live) c
    cross join lateral (
      select string_agg(n.name, ', ' order by n.name) as silent from pgrab.node n where n.state <> 'down') s
    cross join lateral (select
      'Every node that could run it is draining or stopping. Undrain one, or start another: pgrab run.'
        as draining,
      format('No live node that runs kind %s has labels %s. Start one with them (--labels), or change the '
        'task''s require.', t.kind, t.require) as labels) k
    cross join lateral (values
      (1, c.live = 0, concat('No node is up. ', 'Silent: ' || s.silent || '. ', 'Start one: pgrab run.'),
        'no node is up' || coalesce('; silent: ' || s.silent, '')),
      (2, c.up = 0, k.draining, 'all nodes are draining'),
      (3, c.up_runs = 0 and c.runs > 0, k.draining,
        format('the nodes that run kind %s are draining', t.kind)),
      (4, c.fit = 0 and c.drained > 0, k.draining, 'all nodes that could run it are draining'),
      (5, c.up_kind = 0, format('No live node runs kind %s. Start one with it: pgrab run --allow ...,%s.',
        t.kind, t.kind), format('no live node runs kind %s', t.kind)),
      (6, c.up_login = 0, format('No live node has a connection for owner %s, and a sql task runs as its '
        'owner or not at all. Give one a section [owner %s] with a service or dsn, or start one that logs in '
        'as %s.', t.owner, t.owner, t.owner), format('no live node has a connection for owner %s', t.owner)),
      (7, c.up_runs = 0, format('No live node runs kind %s for owner %s: see allow in [owner %s] of their '
        'files.', t.kind, t.owner, t.owner),
        format('no live node runs kind %s for owner %s', t.kind, t.owner)),
      (8, c.up_labels = 0, k.labels, format('no live node has labels %s', t.require)),
      (9, c.fit = 0 and c.low > 0, format('All nodes that are up and could run it take only tasks of '
        'priority %s and above (min_priority), and this one has %s. Start one without, or raise its '
        'priority.',
        c.reserved, t.priority), format('all nodes that could run it take only priority >= %s', c.reserved)),
      (10, c.fit = 0 and c.small is not null, format('No node that is up and could run it is large enough. '
        '%s. Start one with more workers or memory, or change the task''s slots or args.limits.', c.small),
        format('no node that could run it is large enough: it takes %s', pgrab_internal.takes(t))),
      (11, c.fit = 0, k.labels, format('no live node runs kind %s and has labels %s', t.kind, t.require)),
      (12, c.well = 0, null, format('%s cannot record runs now: see the log', c.names)),
      (13, c.slots = 0, null, format('no handler process for kind %s is up', t.kind)),
      (14, c.free = 0 and pgrab_internal.takes(t) = '1 slot', null, 'all nodes busy'),
      (15, c.free = 0, null, format('no node has %s free', pgrab_internal.takes(t)))) m(n, shut, detail, why)
  where m.shut order by m.n limit 1;
end;
comment on function pgrab_internal.explain_cluster is 'Why no node can take it now, all of them together.';

-- Others know nothing of a node that is busy, so they wait for their time, too.  Lists group by the reason,
-- so it has no time of day.
create or replace function pgrab_internal.explain_prefer(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'preferred nodes', case when p.free > 0 or o.at <= statement_timestamp() then 'ok' else 'waits' end,
    format('%s; %s', m.what, case when o.at <= statement_timestamp() then 'any other may take it by now.'
      else format('others may take it at %s (failover_after).', pgrab_internal.cut(o.at)) end),
    case when o.at > statement_timestamp() and coalesce(p.free, 0) <= 0
      then format('%s; others take it when it is %s late', lower(left(m.what, 1)) || substr(m.what, 2),
        o.after) end
  from (
    select t.due_at + x.after as at, x.after
    from (select coalesce(t.failover_after, '30 s') as after) x) o
    cross join lateral (
      select string_agg(n.name, ', ' order by n.name) filter (where f.can) as names,
        count(*) filter (where f.can and f.full is null) as free,
        min(g.gate || ': ' || rtrim(g.detail, '.')) filter (where not f.can) as unfit
      from pgrab.node n cross join lateral pgrab_internal.fit(t, n) f
        cross join lateral pgrab_internal.explain_node(t, n) g
      where n.live and n.labels @> t.prefer) p
    cross join lateral (
      select case when p.names is null and p.unfit is not null
          then format('No node that it prefers can take it: %s', p.unfit)
        when p.names is null then format('No node that it prefers is up, with labels %s', t.prefer)
        when p.free <= 0 then format('The nodes that it prefers are busy: %s', p.names)
        else format('It prefers %s', p.names) end as what) m
  where t.prefer is not null and t.status = 'scheduled';
end;
comment on function pgrab_internal.explain_prefer is 'Which nodes it prefers, and when others may take it.';

create or replace function pgrab_internal.explain_turn(t pgrab_internal.task)
returns setof pgrab_internal.gate
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off
set jit = off as $$
declare
  c_most constant integer := 100;
  v_others bigint;
  v_before bigint;
begin
  if t.share_key is null or t.status <> 'scheduled' or t.due_at > statement_timestamp() then
    return;
  end if;
  with recursive hop(share_key) as ( -- as look_turns.sql: from one key to the next
    select ''
    union all
    select n.share_key from hop h cross join lateral (
      select x.share_key from pgrab.task x
      where pgrab_tool.lane_of(row(x.*)::pgrab_internal.task) = pgrab_tool.lane_of(t)
        and x.share_key > h.share_key and x.due_at <= statement_timestamp() and x.status = 'scheduled'
      order by x.share_key limit 1) n)
  select count(*) filter (where k.share_key <> t.share_key) into v_others
  from (select h.share_key from hop h offset 1 limit c_most) k;
  select count(*) into v_before from (
    select from pgrab.task x
    where pgrab_tool.lane_of(row(x.*)::pgrab_internal.task) = pgrab_tool.lane_of(t)
      and x.share_key between t.share_key and t.share_key and (x.due_at, x.id) < (t.due_at, t.id)
      and x.status = 'scheduled'
    order by x.share_key limit c_most) x; -- an order that only task_share_idx has
  return query select 'turn', 'ok',
    format('%s of share_key %L %s before it; %s other %s turns with this one.',
    case when v_before < c_most then v_before::text else 'At least ' || v_before end, t.share_key,
    case v_before when 1 then 'is' else 'are' end,
    case when v_others < c_most - 1 then v_others::text else 'at least ' || v_others end,
    case v_others when 1 then 'key takes' else 'keys take' end), null;
end $$;
comment on function pgrab_internal.explain_turn is
  'With a share_key: what is before it, and with how many other keys it takes turns.';

-- A lane is divided among the nodes that can run it.  Which of them has a shard is published only for lanes
-- that all nodes can run.
create or replace function pgrab_internal.likely(p_able text[], p_all bigint, p_owner text) returns text
language sql immutable
return case when p_able = '{}' then null when cardinality(p_able) = 1 then p_able[1]
  when cardinality(p_able) = p_all then p_owner
  else 'one of ' || array_to_string(p_able[1:5], ', ')
    || case when cardinality(p_able) > 5 then ', ...' else '' end end;
comment on function pgrab_internal.likely is
  'Which node will probably run a task. p_able: the nodes that could; p_all: how many nodes there are; '
  'p_owner: the owner of its shard, if all could. Null: none.';

create or replace function pgrab_internal.explain_owner(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'owner', case when w.node is not null then 'ok' else 'waits' end, case
    when w.node is null then format('Shard %s has no owner at the moment; any free node takes the task after '
      'steal_after.', pgrab.shard(t.id))
    when w.node = '(first come)' then 'The first node to look takes it.'
    when w.node like 'one of %' then format('%s takes it; another of them when it is late by '
      'steal_after.', upper(left(w.node, 1)) || substr(w.node, 2))
    else format('Shard %s belongs to %s; others take the task when it is late by steal_after.',
      pgrab.shard(t.id), w.node) end, null
  from (
    select pgrab_internal.likely(pgrab_internal.able(t),
      (select count(*) from pgrab.node n where n.state = 'up' and n.live),
      (select o.node from pgrab.ownership o where o.shard = pgrab.shard(t.id))) as node) w
  where pgrab_internal.able(t) <> '{}';
end;
comment on function pgrab_internal.explain_owner is 'Which node its shard belongs to.';

create or replace function pgrab_internal.explain_claim(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'claim', case when c.holds then 'ok' else 'waits' end,
    case when c.holds then format('Claimed by %s at %s; it starts when it is due and %s free.', n.name,
        pgrab_internal.cut(t.claimed_at), case when pgrab_internal.takes(t) = '1 slot' then 'a worker is'
          else pgrab_internal.takes(t) || ' are' end)
      when c.silent then format('Claimed by %s, which is silent; others take it over when it has been for '
        '%s (its dead_after).', n.name, n.dead_after)
      else 'Claimed by a node that has died; others take it over.' end,
    case when n.id is null then 'claimed by a node that is gone' when c.holds then 'claimed by ' || n.name
      else format('claimed by %s, which %s', n.name, case when c.silent then 'is silent' else 'has died' end)
      end
  from (select) one left join pgrab.node n on n.id = t.node_id
    cross join lateral (
      select x.own and n.live as holds, x.own and not n.live as silent
      from (select coalesce(n.incarnation = t.incarnation and n.state <> 'down', false) as own) x) c
  where t.status = 'claimed';
end;
comment on function pgrab_internal.explain_claim is 'Which node has claimed it.';

create or replace function pgrab_internal.explain_look(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'next look', 'ok',
    'A node looks when the doorbell rings, and at the latest after its `poll` (1 s by default).',
    'about to be taken'
  where t.status = 'scheduled' and t.due_at <= statement_timestamp() + interval '5 s';
end;
comment on function pgrab_internal.explain_look is 'When nodes look next.';

-- p_all: all gates; otherwise no more than to the first that is shut, and nothing that is only told.  (A
-- statement each: one for all would be begun fourteen times.)
create or replace function pgrab_internal.gates(t pgrab_internal.task, p_all boolean)
returns setof pgrab_internal.gate
language plpgsql stable set plan_cache_mode = force_generic_plan as $$
declare
  c_planned constant boolean := t.status in ('scheduled', 'claimed', 'parked');
  c_asks constant boolean := pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation);
  c_limited constant boolean := t.limit_key is not null or t.line is not null
    or c_planned and pgrab_internal.quota_limits(t.owner, t.share_key);
  g pgrab_internal.gate[];
begin
  return query select * from pgrab_internal.explain_answer(t);
  for i in 1 .. case when pgrab_internal.under_way(t.status, t.incarnation) then 0 when c_planned then 14
    when t.kind = 'batch' then 5 when c_asks then 6 else 4 end loop
    continue when i = 2 and not c_planned or not p_all and (i in (9, 12, 13) or i in (3, 4) and c_planned
      or i = 7 and not c_limited or i = 8 and t.status <> 'claimed');
    case i
      when 1 then g := array(select x from pgrab_internal.explain_row(t) x);
      when 2 then g := array(select x from pgrab_internal.explain_blackout(t) x);
      when 3 then g := array(select x from pgrab_internal.explain_parents(t, p_all) x);
      when 4 then g := array(select x from pgrab_internal.explain_chain(t) x);
      when 5 then g := array(select x from pgrab_internal.explain_signal(t) x
        union all select x from pgrab_internal.explain_batch(t) x);
      when 6 then g := array(select x from pgrab_internal.explain_due(t, p_all) x);
      when 7 then g := array(select x from pgrab_internal.explain_quota(t, p_all) x
        union all select x from pgrab_internal.explain_limit(t, p_all) x);
      when 8 then g := array(select x from pgrab_internal.explain_claim(t) x);
      when 9 then g := array(select x from pgrab.node n cross join lateral pgrab_internal.explain_node(t, n) x
        where n.state <> 'down' or t.node_id = n.id order by n.name);
      when 10 then g := array(select x from pgrab_internal.explain_held_up(t) x);
      when 11 then g := array(select x from pgrab_internal.explain_cluster(t) x
        union all select x from pgrab_internal.explain_prefer(t) x);
      when 12 then g := array(select x from pgrab_internal.explain_pools(t) x);
      when 13 then g := array(select x from pgrab_internal.explain_owner(t) x where t.prefer is null
        union all select x from pgrab_internal.explain_turn(t) x);
      else g := array(select x from pgrab_internal.explain_look(t) x);
    end case;
    continue when g = '{}';
    return query select * from unnest(g);
    exit when not p_all and exists (select from unnest(g) x where x.why is not null);
  end loop;
end $$;
comment on function pgrab_internal.gates is 'The gates between a task and its run, in order.';

create or replace function pgrab_internal.explain_task(p_id bigint, p_seen boolean, p_by text)
returns table (gate text, verdict text, detail text)
language plpgsql stable as $$
declare
  t pgrab_internal.task;
begin
  select * into t from pgrab.task x where x.id = p_id and p_seen;
  if not found then
    return query select e.gate, e.verdict, e.detail
      from pgrab_internal.explain_ended(case when p_seen then p_id end, p_id, p_by) e;
    return;
  end if;
  return query
  select r.gate, r.verdict, r.detail from pgrab_internal.explain_running(t) r where t.status = 'running';
  return query
  select g.gate, g.verdict, g.detail from pgrab_internal.gates(t, true) g where g.detail is not null;
end $$;
comment on function pgrab_internal.explain_task is
  'pgrab.explain() for a caller; p_seen: who may see the task.';

-- Only tasks that the caller may see are explained; nodes, lines and locks are then looked at with the rights
-- of pgrab's owner.
create or replace function pgrab.explain(p_id bigint) returns table (gate text, verdict text, detail text)
language sql stable
begin atomic
  select e.gate, e.verdict, e.detail
  from pgrab_internal.explain_task(p_id, exists (select from pgrab.task t where t.id = p_id)
    or exists (select from pgrab.last_run(p_id)), current_user) e;
end;
comment on function pgrab.explain(bigint) is
  'Why is it not running? Every gate that the task must pass, with its verdict: ok; waits (time, other '
  'tasks or a signal will open it); blocked (it needs a person; detail says what to do).';

create or replace function pgrab.explain(p_task text) returns table (gate text, verdict text, detail text)
language sql stable
begin atomic
  select * from pgrab.explain(pgrab_tool.id_of(p_task));
end;
comment on function pgrab.explain(text) is 'The same for a task given by its key or its name.';

create or replace function pgrab_internal.fires_left(t pgrab_internal.task) returns bigint
language sql immutable parallel safe
return case when t.max_runs is not null then greatest(0, t.max_runs - t.fires
  - case when pgrab_internal.under_way(t.status, t.incarnation) then 0 else 1 end) end;
comment on function pgrab_internal.fires_left is
  'How many fires a schedule may have after the one at hand. Null: that has no bound.';

create or replace function pgrab_internal.forecast_one(
  t pgrab_internal.task, p_until timestamptz, p_limit integer)
returns setof timestamptz
language sql stable
begin atomic
  select greatest(t.due_at, statement_timestamp())
  where not pgrab_internal.under_way(t.status, t.incarnation)
  union all
  (select x.f + pgrab_internal.jitter_of(t.id, t.jitter)
  from pgrab_internal.fires_on(t.schedule, t.timezone, pgrab_internal.fire_before(
      pgrab_internal.schedule_compile(t.schedule), t.fire_at, statement_timestamp()),
    least(p_until, t.ends_at), t.calendar, t.on_closed) x(f)
  where t.schedule is not null and pgrab_internal.schedule_kind(t.schedule) <> 'after'
  limit least(p_limit, pgrab_internal.fires_left(t)));
end;
comment on function pgrab_internal.forecast_one is 'The coming fires of one task, about p_limit at most.';

-- A window may end in another.
create or replace function pgrab_internal.forecast_through(t pgrab_internal.task, p_at timestamptz,
  out comes_at timestamptz, out held_by text, out over_at timestamptz)
language plpgsql stable as $$
declare
  c_most constant integer := 100;
  w pgrab_internal.closure;
begin
  comes_at := p_at;
  for n in 1 .. c_most loop
    w := pgrab_internal.closed_by(t, comes_at);
    exit when w.action is distinct from 'hold';
    comes_at := w.ends_at;
    held_by := w.name;
    over_at := coalesce(over_at, w.ends_at);
  end loop;
  if w.action is not null then
    comes_at := null;
    over_at := case w.action when 'skip' then w.ends_at else 'infinity' end;
  end if;
end $$;
comment on function pgrab_internal.forecast_through is
  'What windows make of a fire that is due then: when it comes (null: not at all), which one has held it, '
  'and until when others would fall into the same (infinity: windows follow each other without an end).';

-- As nodes will do: of the fires that are held until one moment the first stands for those that are later
-- than misfire_after by then, unless each is to run (misfire all).  Those that come to nothing are passed
-- over at once, so that a long window costs no more than a short one.
create or replace function pgrab_internal.forecast_closed(
  p_id bigint, p_now timestamptz, p_until timestamptz, p_limit bigint)
returns table (at timestamptz, held_by text)
language plpgsql stable rows 4 as $$
declare
  c_idle constant integer := 1000; -- windows without a fire that comes
  c record;
  t pgrab_internal.task;
  v_cron bigint[];
  v_opens timestamptz; -- from here until v_open no window is on
  v_open timestamptz;
  v_held timestamptz; -- when what is held comes
  v_over timestamptz := p_now; -- fires before are not looked at
begin
  select x.* into t from pgrab.task x where x.id = p_id;
  v_cron := case when pgrab_internal.schedule_kind(t.schedule) <> 'after'
    then pgrab_internal.schedule_compile(t.schedule) end;
  p_limit := least(p_limit, t.max_runs - t.fires, 1000000);
  if pgrab_internal.is_put_off(t) then
    v_held := t.due_at;
    held_by := (pgrab_internal.closed_by(t, p_now)).name;
  end if;
  at := case when not pgrab_internal.under_way(t.status, t.incarnation) then greatest(t.due_at, p_now) end;
  for n in 1 .. p_limit + c_idle loop
    if at < v_opens or at >= v_open or v_open is null then
      c := pgrab_internal.forecast_through(t, at);
      if c.over_at is null then
        v_opens := at;
        v_open := pgrab_internal.open_until(t, at);
      elsif c.comes_at is null
        or t.misfire <> 'all' and c.comes_at <= v_held and c.comes_at - at > t.misfire_after then
        v_over := greatest(v_over, c.over_at);
        at := null;
      else
        at := c.comes_at;
        held_by := c.held_by;
        v_held := at;
      end if;
    end if;
    if at is not null then
      return next;
      p_limit := p_limit - 1;
    end if;
    exit when p_limit <= 0 or v_cron is null or v_over = 'infinity';
    t.attempt := 0; -- of the fires that follow
    t.steps := null;
    held_by := null;
    t.fire_at := pgrab_internal.fire_next(v_cron, t.timezone,
      coalesce(case when v_over > t.fire_at then pgrab_internal.nth_last_fire_on(t.schedule, t.timezone,
        t.fire_at, v_over - interval '1 us', 1, t.calendar, t.on_closed) end, t.fire_at),
      t.calendar, t.on_closed);
    at := t.fire_at + pgrab_internal.jitter_of(t.id, t.jitter);
    exit when t.fire_at > least(p_until, t.ends_at) or t.fire_at is null;
  end loop;
end $$;
comment on function pgrab_internal.forecast_closed is
  'The coming fires of one task while there are blackouts, p_limit at most, as of p_now.';

-- As forecast_closed(), but with what comes to nothing.
create or replace function pgrab_tool.coming(p_id bigint, p_limit integer)
returns table (at timestamptz, becomes text)
language sql stable
begin atomic
  with fire as materialized (
    select row(t.*)::pgrab_internal.task as t, f.at,
      lag(f.at, 1, greatest(f.since, t.starts_at)) over (order by f.at) as before
    from pgrab.task t cross join lateral (
      select t.fire_at as at, statement_timestamp() as since where t.fire_at > statement_timestamp()
      union all
      select x.at, pgrab_internal.fire_before(
        pgrab_internal.schedule_compile(t.schedule), t.fire_at, statement_timestamp())
      from pgrab_internal.fires_on(t.schedule, t.timezone, pgrab_internal.fire_before(
          pgrab_internal.schedule_compile(t.schedule), t.fire_at, statement_timestamp()),
        coalesce(t.ends_at, 'infinity'), t.calendar, t.on_closed) x(at)
      limit p_limit) f
    where t.id = p_id and pgrab_internal.schedule_kind(t.schedule) <> 'after'),
  shut as materialized (
    select f.t, f.at, w.name, w.action, w.ends_at, pgrab_internal.closure_why(w) as why,
      row_number() over (partition by w.name, w.ends_at order by f.at) as n
    from fire f cross join lateral pgrab_internal.closed_by(pgrab_internal.without_run(f.t),
      f.at + pgrab_internal.jitter_of((f.t).id, (f.t).jitter)) w)
  (select s.at, case when s.action = 'skip' then 'skipped: ' || s.why
      when s.name is not null and s.n > 1 and (s.t).misfire <> 'all'
        and s.ends_at - s.at > (s.t).misfire_after then format('the run behind %s stands for it', s.why)
      when s.name is not null
        then format('held until %s: %s', pgrab_internal.cut(s.ends_at), s.why)
      when (s.t).calendar is not null and (s.t).on_closed <> 'skip'
        and pgrab.next_fire((s.t).schedule, (s.t).timezone, s.at - interval '1 us') <> s.at
        then format('moved to the %s open day of calendar %s', (s.t).on_closed, (s.t).calendar) end
  from shut s)
  union all
  (select c.fire, 'not run: ' || c.why
  from fire f cross join lateral (
    select x.fire, x.why from pgrab_internal.fires_closed((f.t).schedule, (f.t).timezone, f.before, f.at,
      (f.t).calendar, (f.t).on_closed) x
    limit p_limit) c
  where (f.t).calendar is not null)
  order by 1 limit 3 * p_limit;
end;
comment on function pgrab_tool.coming is
  'The next fires of a schedule, p_limit that are not on closed days, and what a blackout or its calendar '
  'makes of each. Null: nothing.';

create or replace function pgrab.forecast(p_horizon interval default '1 day', p_limit integer default 10000)
returns table (fire_at timestamptz, task_id bigint, name text, kind text, schedule text, node text,
  ends_at timestamptz)
language sql stable
begin atomic
  with owner as materialized (
    select o.shard, o.node from pgrab.ownership o),
  task as materialized (
    select t.id, coalesce(t.name, t.key) as name, t.kind, t.owner, t.require, t.schedule, t.durations,
      pgrab.shard(t.id) as shard, t.priority, pgrab_internal.band(t.priority) as band, t.slots,
      pgrab_tool.memory_of(t.kind, t.args) as memory, f.at, f.held_by, t.prefer, t.due_at,
      coalesce(t.failover_after, '30 s') as failover
    from (
      select d.* from pgrab_tool.due_first(
        statement_timestamp() + p_horizon, '{scheduled,claimed,running}', p_limit) d
      union all
      (select x.* from pgrab.wait w join pgrab.task x on x.id = w.task_id
      where w.name is null and pgrab_internal.awaits(x.status, x.incarnation) limit p_limit)) t
      cross join lateral (
        select x.at, null::text as held_by
        from pgrab_internal.forecast_one(t, statement_timestamp() + p_horizon, p_limit) x(at)
        where not exists (select from pgrab.blackout)
        union all
        select x.at, x.held_by
        from pgrab_internal.forecast_closed(
          t.id, statement_timestamp(), statement_timestamp() + p_horizon, p_limit) x
        where exists (select from pgrab.blackout)) f
    order by f.at, t.id limit p_limit),
  usual as materialized (
    select d.durations, pgrab_tool.usual(d.durations) as usual
    from (select distinct t.durations from task t) d),
  class as materialized (
    select c.*, pgrab_tool.able(c.kind, c.owner, c.require, c.priority, c.slots, c.memory) as able,
      case when c.near @> c.prefer
          then pgrab_tool.able(c.kind, c.owner, c.near, c.priority, c.slots, c.memory)
        when c.prefer is not null then '{}' end as preferred
    from (
      select t.kind, t.owner, t.require, t.band, t.slots, t.memory, t.prefer,
        t.prefer || t.require as near, min(t.priority) as priority
      from task t group by 1, 2, 3, 4, 5, 6, 7) c)
  (select p.at, t.id, t.name, t.kind, t.schedule, case
    when t.held_by is not null then format('(after blackout %s)', t.held_by)
    when c.able = '{}' then '(no node can)'
    else coalesce(pgrab_internal.likely(
      case when c.preferred <> '{}' then c.preferred else c.able end, a.n, o.node), '(nobody)') end,
    p.at + u.usual
  from task t join class c on c.kind = t.kind and c.owner = t.owner and c.require = t.require
      and c.band = t.band and c.slots = t.slots and c.memory is not distinct from t.memory
      and c.prefer is not distinct from t.prefer
    cross join lateral (
      select case when c.preferred = '{}' and c.able <> '{}' then greatest(statement_timestamp(), t.failover
        + case when t.at > statement_timestamp() then t.at else t.due_at end) else t.at end as at) p
    left join owner o on o.shard = t.shard left join usual u on u.durations = t.durations
    cross join (
      select count(*) as n from pgrab.node n where n.state = 'up' and n.live) a)
  union all
  (select greatest(w.since, statement_timestamp()), t.id, coalesce(t.name, t.key), t.kind, t.schedule,
    format('(waits for signal %s)', w.name), null
  from pgrab.wait w join pgrab.task t on t.id = w.task_id
  where w.since <= statement_timestamp() + p_horizon and not t.paused and t.kind <> 'batch'
    and pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation)
  order by w.since, w.task_id limit p_limit)
  order by 1, 2 limit p_limit;
end;
comment on function pgrab.forecast(interval, integer) is
  'Every coming fire within that time, the soonest first, with the node that will probably run it, as of '
  'now. What a blackout holds comes at its end, and what one skips does not come. For @after, which counts '
  'from the end of a run, only the next fire is known; so for what waits for a signal: that fire comes at '
  'its time, or later, with the signal. While no node is up that a task prefers, it comes failover_after '
  'after its time, to another. ends_at: when it is over if it takes as long as usual; null: it has not '
  'succeeded before.';
