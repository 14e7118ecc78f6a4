-- The end of a run, of any outcome and any task, and what dead nodes held.

-- The runs among these that succeeded and are the end of a task that nothing will plan anew, plain or a link: the row leaves and the history row is written, in one statement. Most runs end so.
-- The chain comes by subqueries: as a join it might be read as a whole, for a few rows. A chain that the task has come into while this waited for its row is not seen here: finish_rest() does.
create or replace function pgrab.finish_last(p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_started_us bigint[], p_finished_us bigint[], p_exit_codes integer[],
  p_outputs text[], p_truncated boolean[], p_node_id bigint, p_node text, p_outcomes text[]) returns setof pgrab.ended
language plpgsql as $$
declare
  v_edges constant boolean := exists (select from pgrab.edge);
begin
  return query
  with gone as (
    delete from pgrab.task t
    using unnest((select p_ids), (select p_versions), (select p_incarnations), (select p_started_us), (select p_finished_us), (select p_exit_codes), (select p_outputs), (select p_truncated), (select p_outcomes))
      as f(id, version, incarnation, started_us, finished_us, exit_code, output, truncated, outcome)
    where f.outcome = 'succeeded' and t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation
      and case when t.status = 'running' and t.schedule is null and t.limit_key is null and (t.chain is not null or t.run_at <= t.fire_at) then t.chain is null or (select c.root is null from pgrab.chain c where c.id = t.chain) end
    returning t.id, t.attempt, t.version, t.incarnation, t.fire_at, t.claimed_at, t.created_at, t.kind, t.owner, t.name, t.chain, (select c.run from pgrab.chain c where c.id = t.chain) as run,
      pgrab.definition_own(t) || case when v_edges and t.chain is not null then coalesce(pgrab.edges_above(t.id), '{}') else '{}' end as definition,
      f.started_us, f.finished_us, f.exit_code, f.output, f.truncated),
  noted as (
    insert into pgrab.run (task_id, attempt, exit_code, node_id, incarnation, version, chain_id, fire_at, claimed_at, started_at, finished_at, created_at, output_truncated,
      outcome, ended, kind, node, owner, name, output, definition)
    select g.id, g.attempt, g.exit_code, p_node_id, g.incarnation, g.version, g.run, g.fire_at, g.claimed_at,
      statement_timestamp() - g.started_us * interval '1 us', statement_timestamp() - g.finished_us * interval '1 us', g.created_at, coalesce(g.truncated, false),
      'succeeded', 'done', g.kind, p_node, g.owner, g.name, g.output, g.definition
    from gone g)
  select g.id, g.version, g.chain, case when g.chain is not null then 'succeeded' end, g.fire_at, false from gone g;
end $$;
comment on function pgrab.finish_last(bigint[], bigint[], bigint[], bigint[], bigint[], integer[], text[], boolean[], bigint, text, text[]) is
  'Internal: the part of pgrab.finish() for runs that succeeded and were the last of their task. Returns those.';

-- One row per run: recorded, and the task planned anew, all in this statement. Arrays of one length, sorted by id, which is the order in which the rows are locked.
-- p_versions, p_incarnations are the fence: a run that does not answer to it changes nothing and is not returned.
--   failed, tries left        again after its backoff; what was lost with its node, at once
--   over, and more to fire    re-armed: a failure ends a run, never a schedule; so is a task that a person gave a new run_at while it ran
--   over, nothing more        it leaves the table when it succeeded or was cancelled, else it is parked
--   over, link of a chain     done, cancelled or parked; it leaves as above when the chain runs once. What that sets in motion is pgrab.chain_advance()'s
-- The plan is made before the rows are written (v_ arrays, in the order of p_ids), so that the calendar is asked once per batch and equal questions are worked out once.
create or replace function pgrab.finish_rest(p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_started_us bigint[], p_finished_us bigint[], p_exit_codes integer[],
  p_outputs text[], p_truncated boolean[], p_node_id bigint, p_node text, p_outcomes text[], p_errors text[]) returns setof pgrab.ended
language plpgsql as $$
declare
  v_outcomes text[];
  v_again boolean[];
  v_attempts integer[];
  v_fired timestamptz[];
  v_claimed timestamptz[];
  v_moved timestamptz[];
  v_ends timestamptz[];
  v_schedules text[];
  v_zones text[];
  v_afters timestamptz[];
  v_next timestamptz[];
  v_chains bigint[];
  v_runs bigint[];
  v_once boolean[];
begin
  -- Locked in a statement of its own: the next one sees the chains that the tasks have come into while this one waited.
  perform from unnest((select p_ids), (select p_versions), (select p_incarnations)) f(id, version, incarnation)
    cross join lateral (select from pgrab.task t where t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation for update) l;
  -- What the rows say now, so that it is still so below. A place in the arrays stays null when the fence does not match.
  select array_agg(x.outcome order by f.n), array_agg(x.again order by f.n), array_agg(x.attempt order by f.n), array_agg(x.fire_at order by f.n), array_agg(x.claimed_at order by f.n),
    array_agg(x.moved order by f.n), array_agg(x.ends_at order by f.n), array_agg(x.schedule order by f.n), array_agg(x.timezone order by f.n), array_agg(x.after order by f.n),
    array_agg(x.chain order by f.n), array_agg(x.run order by f.n), array_agg(x.once order by f.n)
  into v_outcomes, v_again, v_attempts, v_fired, v_claimed, v_moved, v_ends, v_schedules, v_zones, v_afters, v_chains, v_runs, v_once
  from unnest((select p_ids), (select p_versions), (select p_incarnations), (select p_finished_us), (select p_outcomes)) with ordinality f(id, version, incarnation, finished_us, outcome, n)
  left join lateral (
    select o.outcome, o.again, t.attempt, t.fire_at, t.claimed_at, t.ends_at,
      case when t.run_at > t.fire_at and t.chain is null then t.run_at end as moved, -- written by a person while it ran
      h.id as chain, h.run, h.root is null as once,
      case when o.plan then t.schedule end as schedule, case when o.plan then t.timezone end as timezone,
      case when o.plan then pgrab.fire_after(t, statement_timestamp() - f.finished_us * interval '1 us') end as after
    from pgrab.task t
      left join pgrab.chain h on h.id = any (array[t.chain])
      cross join lateral (select case when f.outcome <> 'succeeded' and exists (select from pgrab.cancel c where c.task_id = t.id and c.version = t.version) then 'cancelled' else f.outcome end as outcome) w
      cross join lateral (select w.outcome not in ('succeeded', 'cancelled') and t.attempt < t.max_attempts and t.delivery = 'at_least_once' and (t.run_at <= t.fire_at or t.chain is not null) as again) a
      cross join lateral (select w.outcome, a.again, not a.again and t.schedule is not null and t.chain is null and (t.fires + 1 < t.max_runs or t.max_runs is null) as plan) o
    where t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation and case when t.status = 'running' then true end
    for update of t) x on true;
  if array_remove(v_schedules, null) <> '{}' then
    select array_agg(n.fire order by n.ord) into v_next from pgrab.next_fires(v_schedules, v_zones, v_afters) n;
  end if;

  return query
  with f as (
    select u.*, case when coalesce(u.moved, u.next) <= coalesce(u.ends_at, 'infinity') then coalesce(u.moved, u.next) end as fire
    from unnest((select p_ids), (select p_versions), (select p_incarnations), (select p_started_us), (select p_finished_us), (select p_exit_codes), (select p_outputs), (select p_truncated),
        (select p_errors), (select v_outcomes), (select v_again), (select v_attempts), (select v_fired), (select v_claimed), (select v_moved), (select v_ends), (select v_next), (select v_chains), (select v_runs), (select v_once))
      as u(id, version, incarnation, started_us, finished_us, exit_code, output, truncated, error, outcome, again, attempt, fired, claimed_at, moved, ends_at, next, chain, run, once)),
  gone as (
    delete from pgrab.task t using f
    where f.outcome in ('succeeded', 'cancelled') and f.fire is null and f.once
      and t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation and case when t.status = 'running' then true end
    returning f.*, t.created_at, t.kind, t.owner, t.name, case f.outcome when 'succeeded' then 'done' else 'cancelled' end as ended, pgrab.definition(t) as definition,
      null::timestamptz as due_at, t.shard),
  kept as (
    update pgrab.task t
    set status = case when f.again or f.fire is not null then 'scheduled' when f.outcome = 'succeeded' then 'done' when f.outcome = 'cancelled' then 'cancelled' else 'parked' end, fire_at = coalesce(f.fire, t.fire_at), run_at = coalesce(f.fire, t.run_at),
      due_at = case when t.paused then null when f.fire is not null then f.fire + pgrab.jitter_of(t.id, t.jitter) when not f.again then null when f.outcome = 'lost' then t.due_at
        else clock_timestamp() + pgrab.retry_wait(t.backoff, t.backoff_max, t.attempt) end,
      attempt = case when f.fire is not null then 0 else t.attempt end, needs = case when f.again then t.needs end,
      version = t.version + 1, node_id = null, incarnation = null, claimed_at = null, runs = t.runs + 1, fires = t.fires + case when f.again then 0 else 1 end,
      failures = t.failures + case when f.outcome = 'succeeded' then 0 else 1 end, last_outcome = f.outcome, last_error = left(f.error, 1000),
      last_finished_at = statement_timestamp() - f.finished_us * interval '1 us'
    from f
    where (f.again or f.fire is not null or not f.once or f.outcome not in ('succeeded', 'cancelled'))
      and t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation and case when t.status = 'running' then true end
    returning f.*, t.created_at, t.kind, t.owner, t.name, null::text as ended, null::jsonb as definition, t.due_at, t.shard),
  bell as (
    select pgrab.ring(array_agg(distinct k.shard)) from kept k where k.due_at < clock_timestamp() + interval '1 s' having count(*) > 0),
  e as (
    select g.* from gone g
    union all
    select k.* from kept k left join bell b on true),
  noted as (
    insert into pgrab.run (task_id, attempt, exit_code, node_id, incarnation, version, chain_id, fire_at, claimed_at, started_at, finished_at, created_at, output_truncated,
      outcome, ended, kind, node, owner, name, error, output, definition)
    select e.id, e.attempt, e.exit_code, p_node_id, e.incarnation, e.version, e.run, e.fired, e.claimed_at,
      statement_timestamp() - e.started_us * interval '1 us', statement_timestamp() - e.finished_us * interval '1 us', e.created_at, coalesce(e.truncated, false),
      e.outcome, e.ended, e.kind, p_node, e.owner, e.name, e.error, e.output, e.definition
    from e)
  select e.id, e.version, e.chain, case when e.chain is null or e.again then null when e.outcome in ('succeeded', 'cancelled') then e.outcome else 'failed' end, e.fired, not e.once from e;
end $$;
comment on function pgrab.finish_rest(bigint[], bigint[], bigint[], bigint[], bigint[], integer[], text[], boolean[], bigint, text, text[], text[]) is
  'Internal: the part of pgrab.finish() for what is planned anew, parked, or kept by its chain. Returns the runs that were still theirs.';

-- All of it; what has ended already is not found again by the second part.
create or replace function pgrab.finish(p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_started_us bigint[], p_finished_us bigint[], p_exit_codes integer[],
  p_outputs text[], p_truncated boolean[], p_node_id bigint, p_node text, p_outcomes text[], p_errors text[]) returns table (task_id bigint, version bigint)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
declare
  v_before constant text := pgrab.link_ends('on');
  v_ended pgrab.ended[] := '{}';
  v_links bigint[];
  v_chains bigint[];
  v_results text[];
  v_fires timestamptz[];
  v_left bigint[];
  v_counted boolean;
begin
  if 'succeeded' = any (p_outcomes) then
    v_ended := array(select x from pgrab.finish_last(p_ids, p_versions, p_incarnations, p_started_us, p_finished_us, p_exit_codes, p_outputs, p_truncated, p_node_id, p_node, p_outcomes) x);
  end if;
  if cardinality(v_ended) < cardinality(p_ids) then
    v_ended := v_ended || array(select x from pgrab.finish_rest(p_ids, p_versions, p_incarnations, p_started_us, p_finished_us, p_exit_codes, p_outputs, p_truncated, p_node_id, p_node, p_outcomes, p_errors) x);
  end if;
  -- All links at once: the locks of their children are taken in one order.
  select array_agg(e.task_id), array_agg(e.chain), array_agg(e.result), array_agg(e.fire_at), array_agg(e.task_id) filter (where not e.counted and e.result <> 'failed'), bool_or(e.counted)
  into v_links, v_chains, v_results, v_fires, v_left, v_counted
  from unnest(v_ended) e where e.result is not null;
  if v_links is not null then
    if v_left is not null and exists (select from pgrab.edge) then
      perform pgrab.edges_leave(v_left);
    end if;
    perform pgrab.chain_advance(v_links, v_chains, v_results, v_fires, v_counted);
  end if;
  return query select e.task_id, e.version from unnest(v_ended) e;
  if exists (select from pgrab.limit_place) then
    perform pgrab.limit_give_back(p_ids);
  end if;
  if exists (select from pgrab.cancel) then
    delete from pgrab.cancel c using unnest(p_ids, p_versions) f(id, version) where c.task_id = f.id and c.version = f.version;
  end if;
  perform pgrab.link_ends(v_before);
end $$;
comment on function pgrab.finish(bigint[], bigint[], bigint[], bigint[], bigint[], integer[], text[], boolean[], bigint, text, text[], text[]) is
  'Internal: records runs that have ended and plans what comes next, fenced by (id, version, incarnation). Returns those that were still theirs.';

-- All at once; or, when that is refused or something is locked that hangs on one of them, each for itself, so that it harms no other.
-- What is locked waits for the next round. What the server refuses to record is parked with the reason; it would be refused in every round.
create or replace function pgrab.finish_lost(p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_started_us bigint[], p_node_id bigint, p_node text, p_error text) returns bigint[]
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  v_done bigint[];
  v_some bigint[];
begin
  begin
    select array_agg(f.task_id) into v_done
    from pgrab.finish(p_ids, p_versions, p_incarnations, p_started_us, array_fill(0::bigint, array[cardinality(p_ids)]), null, null, null, p_node_id, p_node,
      array_fill('lost'::text, array[cardinality(p_ids)]), array_fill(p_error, array[cardinality(p_ids)])) f;
    return v_done;
  exception when lock_not_available or data_exception or integrity_constraint_violation or raise_exception then
    null;
  end;
  perform set_config('lock_timeout', '4ms', true);
  for i in 1 .. cardinality(p_ids) loop
    begin
      select array_agg(f.task_id) into v_some
      from pgrab.finish(p_ids[i:i], p_versions[i:i], p_incarnations[i:i], p_started_us[i:i], '{0}', null, null, null, p_node_id, p_node, '{lost}', array[p_error]) f;
      v_done := v_done || v_some;
    exception
      when lock_not_available then
        null;
      when data_exception or integrity_constraint_violation or raise_exception then
        if sqlerrm like 'no partition of relation%' then
          raise;
        end if;
        update pgrab.task t
        set status = 'parked', due_at = null, version = t.version + 1, node_id = null, incarnation = null, claimed_at = null, runs = t.runs + 1, fires = t.fires + 1, failures = t.failures + 1,
          last_outcome = 'lost', last_error = left(p_error || ', and that could not be recorded: ' || sqlerrm, 1000), last_finished_at = clock_timestamp()
        where t.id = p_ids[i] and t.version = p_versions[i] and t.incarnation = p_incarnations[i] and t.status = 'running';
        v_done := v_done || p_ids[i];
        begin
          perform pgrab.link_parked(t) from pgrab.task t where t.id = p_ids[i] and t.chain is not null and t.status = 'parked';
        exception when data_exception or integrity_constraint_violation or raise_exception or lock_not_available then
          null; -- what hangs below waits until a person has retried it
        end;
    end;
  end loop;
  return v_done;
end $$;
comment on function pgrab.finish_lost(bigint[], bigint[], bigint[], bigint[], bigint, text, text) is 'Internal: finishes runs as lost, each for itself when not all can be. Returns those that are done.';

-- Puts back what nobody living holds. Claimed ones were never started and go back as they are; running ones are finished as lost, by the same rules as every other run.
-- A held task has kept its due_at, so only the heads of the due indexes are read, not the table.
create or replace function pgrab.recover(p_by text, p_incarnation bigint default null, out put_back bigint, out had_run bigint, out parked bigint)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_held record;
  v_claimed bigint[];
  v_versions bigint[];
  v_shards smallint[];
  v_done bigint[];
begin
  put_back := 0;
  had_run := 0;
  parked := 0;
  select array_agg(o.id order by o.id), array_agg(o.version order by o.id) into v_claimed, v_versions
  from pgrab.held_by_nobody(p_incarnation) o
    cross join lateral (select x.id from pgrab.task x where x.id = any (array[o.id]) and x.version = o.version for update skip locked) free -- what a person has locked waits for the next round
  where o.status = 'claimed';
  if v_claimed is not null then
    with back as (
      update pgrab.task t set status = 'scheduled', version = t.version + 1, node_id = null, incarnation = null, claimed_at = null
      from unnest((select v_claimed), (select v_versions)) o(id, version)
      where t.id = any (array[o.id]) and t.version = o.version and t.status = 'claimed'
      returning t.shard)
    select count(*), array_agg(distinct b.shard) into put_back, v_shards from back b;
    perform pgrab.ring(v_shards);
  end if;
  for v_held in
    select o.node_id, o.incarnation, (select n.name from pgrab.node n where n.id = o.node_id) as node, array_agg(o.id order by o.id) as ids, array_agg(o.version order by o.id) as versions,
      array_agg(o.incarnation order by o.id) as incarnations, array_agg((date_part('epoch', statement_timestamp() - o.started_at) * 1e6)::bigint order by o.id) as started_us
    from pgrab.held_by_nobody(p_incarnation) o
      cross join lateral (select x.id from pgrab.task x where x.id = any (array[o.id]) and x.version = o.version for update skip locked) free
    where o.status = 'running' group by o.node_id, o.incarnation
  loop
    v_done := pgrab.finish_lost(v_held.ids, v_held.versions, v_held.incarnations, v_held.started_us, v_held.node_id, v_held.node, 'the node that ran it died or lost its lease; seen by ' || p_by);
    had_run := had_run + coalesce(cardinality(v_done), 0);
    parked := parked + (select count(*) from pgrab.task t where t.id = any (v_done) and t.status = 'parked');
  end loop;
  put_back := put_back + had_run;
end $$;
comment on function pgrab.recover(text, bigint) is 'Internal: puts back tasks held by an incarnation (null: any) that no node that is up has. Returns how many, how many of them had been running, how many were parked.';

create or replace function pgrab.held_by_nobody(p_incarnation bigint) returns setof pgrab.task
language sql stable as $$
  select t.* from pgrab.due_until(statement_timestamp() + interval '2 hours') t
  where t.status in ('claimed', 'running') and (p_incarnation is null or t.incarnation = p_incarnation)
    and not exists (select from pgrab.node n where n.state <> 'down' and n.incarnation = t.incarnation)
    -- A sql run whose backend could not be ended goes on: it waits for the next round.
    and (t.status <> 'running' or t.kind <> 'sql' or ('pgrab sql ' || t.incarnation = any (
      (select array_agg(a.application_name) from pg_stat_activity a where a.datname = current_database() and a.application_name like 'pgrab sql %')::text[])) is not true)
$$;
comment on function pgrab.held_by_nobody(bigint) is 'Internal: tasks claimed or running for an incarnation that no node that is up has, but for sql runs whose backend is still there.';
