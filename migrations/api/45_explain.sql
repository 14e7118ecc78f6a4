-- "Why is it not running?", and what is coming.

-- Each gate a task has to pass before it runs, in order, with its verdict: ok; waits (time or others will open it); blocked (a person has to).
create or replace function pgrab.explain(p_id bigint) returns table (gate text, verdict text, detail text)
language plpgsql stable as $$
#variable_conflict use_column
declare
  t pgrab.task;
  r pgrab.run;
  v_now timestamptz := statement_timestamp();
  v_owner text;
  v_sooner text;
begin
  select * into t from pgrab.task x where x.id = p_id;
  if not found then
    select * into r from pgrab.run x where x.task_id = p_id and x.ended is not null order by x.finished_at desc limit 1;
    if not found then
      raise exception using errcode = 'P0002', message = format('pgrab.explain: task %s does not exist', coalesce(p_id::text, 'null')), hint = 'select * from pgrab.tasks shows what there is.';
    end if;
    return query select 'ended', 'blocked', format('It has ended: %s, %s at %s. Insert a new task to run it again; its definition: `pgrab show %s`.', r.ended, r.outcome, date_trunc('second', r.finished_at), p_id);
    return;
  end if;

  if t.status = 'running' then
    return query
    select 'running', 'ok', format('It runs on %s since %s, attempt %s of %s, and is stopped after %s.', coalesce(n.name, 'a node that is gone'), date_trunc('second', t.started_at), t.attempt, t.max_attempts, t.timeout)
      || case when c.task_id is not null then ' Asked to stop by ' || c.asked_by || '.' else '' end
    from (select) one left join pgrab.node n on n.id = t.node_id left join pgrab.cancel_request c on c.task_id = t.id and c.version = t.version;
    return query select 'node', 'waits', 'Its node has died or is silent; others take the task over.'
    where not exists (select from pgrab.node n where n.id = t.node_id and n.incarnation = t.incarnation and n.state <> 'down' and v_now - n.heartbeat_at < n.dead_after);
    return;
  end if;
  return query select 'parked', case t.status when 'parked' then 'blocked' else 'ok' end,
    case t.status when 'parked' then format('Out of attempts (%s of %s): %s. select pgrab.retry(%s) tries it again.', t.attempt, t.max_attempts, coalesce(t.last_error, t.last_outcome, 'no reason given'), t.id)
      else format('%s of %s attempts for this fire are used.', t.attempt, t.max_attempts) end;
  return query select 'paused', case when t.paused then 'blocked' else 'ok' end, case when t.paused then format('Paused: select pgrab.resume(%s) lets it go.', t.id) else 'Not paused.' end;
  return query
  select 'parent ' || coalesce(p.name, (select (array_agg(x.name order by x.finished_at desc))[1] from pgrab.run x where x.task_id = a.parent_id and p.id is null), '#' || a.parent_id), case when r.result is null then 'waits' when pgrab_internal.run_if_met(a.run_if, r.result) then 'ok' else 'blocked' end,
    case when r.result is null then format('Starts after its %s; it is %s%s.', a.run_if, p.status, case when p.status = 'waiting' then ' itself' else '' end)
      when r.result = 'failed' then format('It failed: %s. select pgrab.retry(%s) tries it again.', coalesce(p.last_error, p.last_outcome), p.id) else format('It has ended: %s; asked for: %s.', r.result, a.run_if) end
  from pgrab_internal.parents_of(t.id) a left join pgrab.task p on p.id = a.parent_id cross join lateral (select pgrab_internal.parent_result(a.parent_id) as result) r order by a.parent_id;
  return query select 'chain', 'waits', format('Its chain is under way, and fires again when it has ended: %s of its links have not (%s%s).', count(*),
      string_agg(coalesce(left(x.name, 40), '#' || x.id), ', ' order by x.id) filter (where x.n <= 3), case when count(*) > 3 then ', ...' end)
  from (select l.id, l.name, row_number() over (order by l.id) as n from pgrab.task l where l.chain = t.chain and l.needs is not null) x
  where t.status in ('done', 'cancelled', 'skipped') and t.schedule is not null having count(*) > 0;
  return query select 'chain', case when t.status = 'waiting' then 'waits' else 'blocked' end,
    case t.status when 'waiting' then 'The chain is under way; this link joins it at its next firing.' when 'skipped' then 'It is skipped in this run of its chain: a parent did not end as it asks.' else format('It has ended in this run of its chain: %s.', t.status) end
  where t.status in ('done', 'cancelled', 'skipped') and t.schedule is null or t.status = 'waiting' and t.needs is null;
  if t.status in ('waiting', 'done', 'cancelled', 'skipped') then
    return;
  end if;
  return query select 'schedule', 'ok', format('%s (%s), %s%s%s', t.schedule, t.timezone, 'carried out ' || t.fires || case when t.max_runs is not null then ' of ' || t.max_runs else '' end || ' times',
      coalesce(', not before ' || t.starts_at, ''), coalesce(', not after ' || t.ends_at, '')) where t.schedule is not null;
  v_sooner := case when t.paused then '' else format(' select pgrab.run_now(%s) does not wait.', t.id) end;
  return query select 'due', case when coalesce(t.due_at, t.fire_at) <= v_now then 'ok' else 'waits' end,
    case when t.due_at > v_now and t.attempt > 0 then format('Attempt %s is due in %s (%s); the last: %s.%s', t.attempt + 1, date_trunc('second', t.due_at - v_now), date_trunc('second', t.due_at), coalesce(t.last_error, t.last_outcome), v_sooner)
      when coalesce(t.due_at, t.fire_at) > v_now then format('Planned for %s, in %s%s.%s', t.fire_at, date_trunc('second', coalesce(t.due_at, t.fire_at) - v_now),
        case when t.due_at > t.fire_at then ', jitter included' else '' end, v_sooner)
      else format('Due since %s.', date_trunc('second', coalesce(t.due_at, t.fire_at))) end;
  return query
  select 'limit', case when p.kept or l.key is null or u.running < coalesce(l.max_running, u.running + 1) and w.before = 0 then 'ok' else 'waits' end,
    case when l.key is null then format('There is no limit %s (any more): it does not count.', t.limit_key)
      else format('%s: %s run%s%s.', l.key, u.running, coalesce(' of ' || l.max_running, ''), coalesce(', at most ' || l.per_second || ' starts per second', ''))
        || case when p.kept then ' A place is kept for it.' when t.due_at is null then format(' It is in line since %s; %s wait there.', date_trunc('second', t.fire_at), w.before) else '' end end
  from (select) one left join pgrab.limit l on l.key = t.limit_key
    cross join lateral (select count(*) filter (where x.started and not x.over) as running from pgrab.limit_place x where x.key = t.limit_key) u
    cross join lateral (select exists (select from pgrab.limit_place x where x.key = t.limit_key and x.task_id = t.id and not x.over) as kept) p
    cross join lateral (select count(*) as before from pgrab.task x where x.limit_key = t.limit_key and x.due_at is null and x.status = 'scheduled' and not x.paused) w
  where t.limit_key is not null;

  -- Who could run it?
  return query
  select 'node ' || n.name, case when f.live and f.kind and f.labels and f.free and n.state = 'up' then 'ok' when f.kind and f.labels and (f.live or n.state = 'draining') then 'waits' else 'blocked' end,
    case when n.state = 'down' then 'It is down.' when not f.live then format('It has been silent for %s.', date_trunc('second', v_now - n.heartbeat_at))
      when not f.kind then format('It does not run kind %s (its allow: %s).', t.kind, array_to_string(n.kinds, ', '))
      when not f.labels then format('Its labels %s do not contain %s.', n.labels, t.require)
      when n.state = 'draining' then format('It drains; select pgrab.undrain(%L) ends that.', n.name)
      when not f.free then format('Busy: %s of %s.', n.running, n.slots) else format('Free: %s of %s at work.', n.running, n.slots) end
  from pgrab.node n cross join lateral (select n.state <> 'down' and v_now - n.heartbeat_at < n.dead_after as live, t.kind = any (n.kinds) as kind, n.labels @> t.require as labels, n.running < n.slots as free) f
  where n.state <> 'down' or t.node_id = n.id order by n.name;
  return query select 'nodes', 'blocked', 'No node is up. Start one: pgrab run.'::text where not exists (select from pgrab.node n where n.state <> 'down');
  return query select 'durability', 'blocked', 'at_most_once, and the server could lose a commit: fsync and full_page_writes have to be on, synchronous_commit too.'
  where t.delivery = 'at_most_once' and not (current_setting('fsync')::boolean and current_setting('full_page_writes')::boolean and current_setting('synchronous_commit') <> 'off');
  select o.node into v_owner from pgrab.ownership o where o.shard = t.shard;
  return query select 'owner', case when v_owner is not null then 'ok' else 'waits' end,
    case when v_owner is null then format('Shard %s has no owner at the moment; whoever is free takes it after steal_after.', t.shard) else format('Shard %s is %s''s; others take it when it is overdue by steal_after.', t.shard, v_owner) end
  where exists (select from pgrab.node n where n.state <> 'down');
  return query
  select 'claim', case when n.id is not null then 'ok' else 'waits' end,
    case when n.id is not null then format('Claimed by %s at %s; it starts when it is due and a worker is free.', n.name, date_trunc('second', t.claimed_at)) else 'Claimed by a node that has died; others take it over.' end
  from (select) one left join pgrab.node n on n.id = t.node_id and n.incarnation = t.incarnation and n.state <> 'down' where t.status = 'claimed';
  return query select 'next look', 'ok', 'A node looks when the doorbell rings, and at the latest after its `poll` (1 s by default).'::text where t.status = 'scheduled' and t.due_at <= v_now + interval '5 s';
end $$;
comment on function pgrab.explain(bigint) is 'Why is it not running? Every gate the task has to pass, with its verdict: ok; waits (time or others will open it); blocked (it needs a person; detail says what to do).';

-- The fires to come. A schedule is asked for no more than p_limit of its own.
create or replace function pgrab.forecast(p_horizon interval default '1 day', p_limit integer default 10000)
returns table (fire_at timestamptz, task_id bigint, name text, kind text, schedule text, node text)
language sql stable as $$
  with owner as materialized (
    select o.shard, o.node from pgrab.ownership o)
  select f.at, t.id, t.name, t.kind, t.schedule, case when able.some then coalesce((select o.node from owner o where o.shard = t.shard), '(nobody)') else '(no node can)' end
  from pgrab_internal.due_until(statement_timestamp() + p_horizon) t
  cross join lateral (select exists (select from pgrab.node n where n.state = 'up' and t.kind = any (n.kinds) and n.labels @> t.require) as some) able
  cross join lateral (
    select greatest(t.due_at, statement_timestamp()) as at where t.status <> 'running'
    union all
    (select x.f + pgrab_internal.jitter_of(t.id, t.jitter)
     from pgrab.fires(t.schedule, t.timezone, t.fire_at, least(statement_timestamp() + p_horizon, t.ends_at)) x(f)
     where t.schedule is not null and pgrab_internal.schedule_kind(t.schedule) <> 'after' and x.f >= statement_timestamp()
     limit least(p_limit, t.max_runs - t.fires - case when t.status = 'running' then 0 else 1 end))) f
  order by f.at, t.id
  limit p_limit
$$;
comment on function pgrab.forecast(interval, integer) is 'Every coming fire within that time, the soonest first, with the node that will likely run it: the owner of the task''s shard now. Of @after, which counts from the end of a run, only the next fire is known.';
