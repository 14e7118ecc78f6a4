-- The end of a run, of any task and with any outcome.
--
-- How these statements keep their plans, whatever the statistics say and however many rows a batch has:
--   set enable_seqscan = off, jit = off, plan_cache_mode = force_generic_plan
--                          on the functions that nodes call; they apply to what is called from there, too
--   id = any (array[...])  instead of =: then the key is the only way to the row.  Otherwise a table that was
--                          vacuumed while empty and filled since is estimated at one row, and read from end
--                          to end for every batch
--   case when ... end      around a condition, so that the planner does not guess how few rows it leaves

-- Runs that have ended: arrays of equal length, sorted by id, the order in which the rows are locked.  Times
-- are microseconds before now, on the node's monotonic clock.  retries_us: the wait before the next attempt
-- that a handler asks for.  Null: as the task says.  -1: no further attempt.  -1 - n: at least n.  Of a run
-- that was lost: another run is to blame, and the attempt is not counted.
create type pgrab_internal.batch as (
  ids bigint[], versions bigint[], incarnations bigint[], started_us bigint[], finished_us bigint[],
  outcomes text[], exit_codes integer[], outputs text[], truncated boolean[], errors text[],
  retries_us bigint[]);
comment on type pgrab_internal.batch is 'Runs that have ended, as a node reports them.';

create or replace function pgrab_internal.batch_rows(b pgrab_internal.batch)
returns table (id bigint, version bigint, incarnation bigint, started_at timestamptz, finished_at timestamptz,
  outcome text, exit_code integer, output text, truncated boolean, error text, retry_us bigint, n bigint)
language sql stable
begin atomic
  select f.id, f.version, f.incarnation, statement_timestamp() - f.started_us * interval '1 us',
    statement_timestamp() - f.finished_us * interval '1 us', f.outcome, f.exit_code, f.output,
    coalesce(f.truncated, false), f.error, f.retry_us, f.n
  from unnest(b.ids, b.versions, b.incarnations, b.started_us, b.finished_us, b.outcomes, b.exit_codes,
    b.outputs, b.truncated, b.errors, b.retries_us) with ordinality f(id, version, incarnation, started_us,
    finished_us, outcome, exit_code, output, truncated, error, retry_us, n);
end;
comment on function pgrab_internal.batch_rows(pgrab_internal.batch) is 'The runs of a batch as rows.';

-- result: for a link whose fire is over, the result that decides about its children.  counted: its chain has
-- a schedule.
create type pgrab_internal.ended as (
  task_id bigint, version bigint, chain bigint, result text, fire_at timestamptz, counted boolean);
comment on type pgrab_internal.ended is 'A run whose end is recorded.';

-- Most runs end like this: the run succeeded and its task, plain or a link, has no next fire, so one
-- statement deletes the row and writes the history.  The chain is found by subqueries, because a join might
-- read the whole table for a few rows.  When the task became part of a chain while this statement waited for
-- its row, finish_rest() takes over.
create or replace function pgrab_internal.finish_last(b pgrab_internal.batch, p_node_id bigint, p_node text)
returns pgrab_internal.ended[]
language plpgsql as $$
declare
  v_edges constant boolean := pg_relation_size('pgrab.edge') > 0;
  v_ended pgrab_internal.ended[];
begin
  with gone as (
    delete from pgrab.task t
    using pgrab_internal.batch_rows(b) f
    where f.outcome = 'succeeded' and t.id = any (array[f.id]) and t.version = f.version
      and t.incarnation = f.incarnation
      and case when t.status = 'running' and t.schedule is null and t.limit_key is null
          and (t.chain is not null or t.run_at <= t.fire_at) and t.updated_at <= t.claimed_at
        then t.chain is null or (select c.root is null from pgrab.chain c where c.chain = t.chain) end
    returning t.id, t.attempt, t.version, t.incarnation, t.fire_at, t.claimed_at, t.created_at, t.kind,
      t.owner, t.key, t.name, t.chain, (select c.chain_id from pgrab.chain c where c.chain = t.chain) as run,
      pgrab_internal.definition_own(row(t.*)::pgrab_internal.task)
        || case when v_edges and t.chain is not null then coalesce(pgrab_internal.edges_above(t.id), '{}')
          else '{}' end as definition,
      f.started_at, f.finished_at, f.exit_code, f.output, f.truncated),
  noted as (
    insert into pgrab.run (task_id, version, incarnation, node_id, chain_id, fire_at, claimed_at, started_at,
      finished_at, created_at, attempt, exit_code, output_truncated, outcome, ended, kind, node, owner, key,
      name, output, definition)
    select g.id, g.version, g.incarnation, p_node_id, g.run, g.fire_at, g.claimed_at, g.started_at,
      g.finished_at, g.created_at, g.attempt, g.exit_code, g.truncated, 'succeeded', 'done', g.kind, p_node,
      g.owner, g.key, g.name, g.output, g.definition
    from gone g)
  select array_agg((g.id, g.version, g.chain, case when g.chain is not null then 'succeeded' end, g.fire_at,
    false)::pgrab_internal.ended)
  into v_ended
  from gone g;
  return coalesce(v_ended, '{}');
end $$;
comment on function pgrab_internal.finish_last(pgrab_internal.batch, bigint, text) is
  'The part of finish() for runs that succeeded and were the last of their task. Returns those.';

-- The same for a single run of a task that is not a link: the usual case with few busy workers, and for every
-- sql task, in its own transaction.  There the cost of a function is that of its expressions, each of which
-- is prepared once per transaction; arrays and plans for many rows would cost three times as much as the two
-- writes.  (The setting for the delete trigger, see link_ends(), is made by assignments, which PL/pgSQL
-- evaluates without the executor that PERFORM starts.)  A cancel that committed while this waited for the row
-- is seen by a statement of its own.
create or replace function pgrab_internal.finish_one(
  p_id bigint, p_version bigint, p_incarnation bigint, p_started_us bigint, p_finished_us bigint,
  p_exit_code integer, p_output text, p_truncated boolean, p_node_id bigint, p_node text)
returns boolean
language plpgsql set enable_seqscan = off as $$
declare
  v_setting text := set_config('pgrab.link_ends',
    (select k.value from pgrab_internal.key k where k.name = 'link_ends'), true);
  v_failed_before boolean;
begin
  with gone as (
    delete from pgrab.task t
    where t.id = any (array[p_id]) and t.version = p_version and t.incarnation = p_incarnation
      and case when t.status = 'running' and t.schedule is null and t.limit_key is null
          and t.chain is null and t.run_at <= t.fire_at and t.updated_at <= t.claimed_at
        then not exists (select from pgrab.limit_place l where l.task_id = any (array[t.id])) end
    returning t.id, t.attempt, t.version, t.incarnation, t.fire_at, t.claimed_at, t.created_at, t.kind,
      t.owner, t.key, t.name, pgrab_internal.definition_own(row(t.*)::pgrab_internal.task)
        as definition),
  noted as (
    insert into pgrab.run (task_id, version, incarnation, node_id, fire_at, claimed_at, started_at,
      finished_at, created_at, attempt, exit_code, output_truncated, outcome, ended, kind, node, owner, key,
      name, output, definition)
    select g.id, g.version, g.incarnation, p_node_id, g.fire_at, g.claimed_at,
      statement_timestamp() - p_started_us * interval '1 us',
      statement_timestamp() - p_finished_us * interval '1 us', g.created_at, g.attempt, p_exit_code,
      coalesce(p_truncated, false), 'succeeded', 'done', g.kind, p_node, g.owner, g.key, g.name, p_output,
      g.definition
    from gone g)
  select exists (select from pgrab.incident i where i.task_id = any (array[g.id]))
  into v_failed_before
  from gone g;
  v_setting := set_config('pgrab.link_ends', '', true);
  if pg_relation_size('pgrab.cancel_request') > 0 then -- however many dead rows an old snapshot keeps
    delete from pgrab.cancel_request c where c.task_id = any (array[p_id]) and c.version = p_version;
  end if;
  if v_failed_before then
    perform pgrab_internal.alert((array[p_id], array[p_version], array[p_incarnation], array[p_started_us],
        array[p_finished_us], array['succeeded'], array[p_exit_code], array[p_output], array[p_truncated],
        array[null]::text[], null)::pgrab_internal.batch,
      array[(p_id, p_version, null, null, null, false)::pgrab_internal.ended], p_node);
  end if;
  return v_failed_before is not null;
end $$;
comment on function pgrab_internal.finish_one(
  bigint, bigint, bigint, bigint, bigint, integer, text, boolean, bigint, text) is
  'finish() for one run that succeeded and was the last of a task that is not a link. False: it does not '
  'apply, and nothing was done.';

-- kind: that of the run.  again: the run will be tried again.  moved: the new run_at of an edit while it ran.
-- schedule, timezone, after: set when the next fire must be looked up.  once: the task is a link of a chain
-- that runs once.
create type pgrab_internal.ending as (
  id bigint, version bigint, incarnation bigint, started_at timestamptz, finished_at timestamptz,
  exit_code integer, output text, truncated boolean, error text, outcome text, again boolean, attempt integer,
  fired timestamptz, claimed_at timestamptz, moved timestamptz, ends_at timestamptz, schedule text,
  timezone text, after timestamptz, chain bigint, run bigint, once boolean, retry_us bigint, kind text);
comment on type pgrab_internal.ending is 'A run that has ended, and what its task says at that moment.';

-- The rows are locked by a statement of their own, so that the next one sees the chains that the tasks became
-- part of while this one waited.
create or replace function pgrab_internal.endings(b pgrab_internal.batch) returns pgrab_internal.ending[]
language plpgsql as $$
declare
  v_endings pgrab_internal.ending[];
begin
  perform from pgrab_internal.batch_rows(b) f cross join lateral (
    select from pgrab.task t
    where t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation for update) l;
  select array_agg((f.id, f.version, f.incarnation, f.started_at, f.finished_at, f.exit_code, f.output,
    f.truncated, f.error, o.outcome, o.again, t.attempt, t.fire_at, t.claimed_at,
    case when t.run_at > t.fire_at and t.chain is null then t.run_at end, t.ends_at,
    case when o.plan then t.schedule end, case when o.plan then t.timezone end,
    case when o.plan then pgrab_internal.fire_after(t.schedule, t.starts_at, t.fire_at, f.finished_at) end,
    h.chain, h.chain_id, h.root is null, f.retry_us,
    case when t.updated_at > t.claimed_at then pgrab.definition_of(t.id, t.version) ->> 'kind' else t.kind end
    )::pgrab_internal.ending order by f.n)
  into v_endings
  from pgrab_internal.batch_rows(b) f
    join pgrab.task t on t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation
      and case when t.status = 'running' then true end
    left join pgrab.chain h on h.chain = any (array[t.chain])
    cross join lateral (
      select case when f.outcome <> 'succeeded' and exists (
          select from pgrab.cancel_request c where c.task_id = t.id and c.version = t.version)
        then 'cancelled' else f.outcome end as outcome) w
    cross join lateral (
      select w.outcome not in ('succeeded', 'cancelled')
        and (t.attempt < t.max_attempts or w.outcome = 'lost' and f.retry_us is not null)
        and t.delivery = 'at_least_once' and f.retry_us is distinct from -1
        and (t.run_at <= t.fire_at or t.chain is not null) as again) a
    cross join lateral (
      select w.outcome, a.again, not a.again and t.schedule is not null and t.chain is null
        and (t.fires + 1 < t.max_runs or t.max_runs is null) as plan) o;
  return coalesce(v_endings, '{}');
end $$;
comment on function pgrab_internal.endings(pgrab_internal.batch) is
  'The runs of a batch whose fence still matches, with what their tasks say; their rows are locked.';

-- The calendar is called once per batch, and equal questions are worked out once.
create or replace function pgrab_internal.endings_next(e pgrab_internal.ending[]) returns timestamptz[]
language sql stable
begin atomic
  select array_agg(n.fire order by n.ord)
  from (
    select array_agg(x.schedule order by x.ordinality), array_agg(x.timezone order by x.ordinality),
      array_agg(x.after order by x.ordinality), count(x.schedule)
    from unnest(e) with ordinality x) q(schedules, zones, afters, planned)
    cross join lateral pgrab_internal.next_fires(q.schedules, q.zones, q.afters) n
  where q.planned > 0;
end;
comment on function pgrab_internal.endings_next(pgrab_internal.ending[]) is
  'The next fire of each run''s task. Null: none is needed.';

create or replace function pgrab_internal.status_after(p_outcome text, p_goes_on boolean) returns text
language sql immutable parallel safe
begin atomic
  select case
    when p_goes_on then 'scheduled'
    when p_outcome = 'succeeded' then 'done'
    when p_outcome = 'cancelled' then 'cancelled'
    else 'parked' end;
end;
comment on function pgrab_internal.status_after(text, boolean) is
  'The status of a task after a run with this outcome; p_goes_on: it is planned again.';

create or replace function pgrab_internal.result_of(p_outcome text) returns text
language sql immutable parallel safe
begin atomic
  select case when p_outcome in ('succeeded', 'cancelled') then p_outcome else 'failed' end;
end;
comment on function pgrab_internal.result_of(text) is
  'The result of a link whose fire is over, which decides about its children.';

create or replace function pgrab_internal.fire_within(p_fire timestamptz, p_ends_at timestamptz)
returns timestamptz
language sql immutable parallel safe
begin atomic
  select case when p_fire <= coalesce(p_ends_at, 'infinity') then p_fire end;
end;
comment on function pgrab_internal.fire_within(timestamptz, timestamptz) is
  'The next fire, unless it is after the end of the schedule.';

-- Calculated in seconds, because an interval times 2^40 overflows before least() sees it.
create or replace function pgrab_internal.retry_wait(p_backoff interval, p_backoff_max interval,
  p_attempt integer)
returns interval
language sql volatile parallel safe
return least(
    extract(epoch from p_backoff)::float8 * power(2, least(greatest(p_attempt, 1) - 1, 40)),
    extract(epoch from p_backoff_max)::float8)
  * (0.9 + 0.2 * random()) * interval '1 s';
comment on function pgrab_internal.retry_wait(interval, interval, integer) is
  'Wait after attempt n: backoff * 2^(n-1), at most backoff_max, +-10 %.';

-- p_retry_us: as in pgrab_internal.batch.
create or replace function pgrab_internal.retry_at(
  p_backoff interval, p_backoff_max interval, p_attempt integer, p_retry_us bigint)
returns timestamptz
language sql volatile
begin atomic
  select case
    when p_retry_us >= 0 then clock_timestamp() + p_retry_us * interval '1 us'
    when p_retry_us < -1 then clock_timestamp() + greatest(
      pgrab_internal.retry_wait(p_backoff, p_backoff_max, p_attempt),
      least(-1 - p_retry_us, 86400000000) * interval '1 us')
    else clock_timestamp() + pgrab_internal.retry_wait(p_backoff, p_backoff_max, p_attempt) end;
end;
comment on function pgrab_internal.retry_at(interval, interval, integer, bigint) is
  'When a task that failed is tried again.';

-- What becomes of the row follows the table at finish_many(), below.
create or replace function pgrab_internal.finish_rest(b pgrab_internal.batch, p_node_id bigint, p_node text)
returns setof pgrab_internal.ended
language plpgsql as $$
declare
  v_endings constant pgrab_internal.ending[] := pgrab_internal.endings(b);
  v_next constant timestamptz[] := pgrab_internal.endings_next(v_endings);
begin
  return query
  with f as (
    select u.*, pgrab_internal.fire_within(coalesce(u.moved, u.unnest), u.ends_at) as fire
    from rows from (unnest(v_endings), unnest(v_next)) u), -- u.unnest: that of v_next
  gone as (
    delete from pgrab.task t using f
    where f.outcome in ('succeeded', 'cancelled') and f.fire is null and f.once
      and t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation
      and case when t.status = 'running' then true end
    returning f.*, t.created_at, t.owner, t.key, t.name,
      pgrab_internal.status_after(f.outcome, false) as ended,
      pgrab_internal.definition_ran(row(t.*)::pgrab_internal.task) as definition,
      null::timestamptz as due_at),
  kept as (
    update pgrab.task t
    set status = pgrab_internal.status_after(f.outcome, f.again or f.fire is not null),
      fire_at = coalesce(f.fire, t.fire_at), run_at = coalesce(f.fire, t.run_at),
      due_at = case when t.paused then null
        when f.fire is not null then f.fire + pgrab_internal.jitter_of(t.id, t.jitter)
        when f.again and f.outcome = 'lost' then least(t.due_at, clock_timestamp())
        when f.again then pgrab_internal.retry_at(t.backoff, t.backoff_max, t.attempt, f.retry_us) end,
      attempt = case when f.fire is not null then 0
        else t.attempt - (f.again and f.outcome = 'lost' and f.retry_us is not null)::int end,
      settled = t.settled and f.fire is null, needs = case when f.again then t.needs end,
      version = t.version + 1, node_id = null, incarnation = null, claimed_at = null,
      runs = t.runs + 1, fires = t.fires + case when f.again then 0 else 1 end,
      failures = t.failures + case when f.outcome = 'succeeded' then 0 else 1 end,
      last_outcome = f.outcome, last_error = left(f.error, 1000), last_finished_at = f.finished_at,
      succeeded_at = case f.outcome when 'succeeded' then f.finished_at else t.succeeded_at end
    from f
    where (f.again or f.fire is not null or not f.once or f.outcome not in ('succeeded', 'cancelled'))
      and t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation
      and case when t.status = 'running' then true end
    returning f.*, t.created_at, t.owner, t.key, t.name, null::text as ended,
      null::jsonb as definition, t.due_at),
  bell as (
    select pgrab_internal.ring(array_agg(distinct pgrab.shard(k.id)))
    from kept k where k.due_at < clock_timestamp() + interval '1 s' having count(*) > 0),
  e as (
    select g.* from gone g union all select k.* from kept k left join bell on true),
  noted as (
    insert into pgrab.run (task_id, version, incarnation, node_id, chain_id, fire_at, claimed_at, started_at,
      finished_at, created_at, attempt, exit_code, output_truncated, outcome, ended, kind, node, owner, key,
      name, error, output, definition)
    select e.id, e.version, e.incarnation, p_node_id, e.run, e.fired, e.claimed_at, e.started_at,
      e.finished_at, e.created_at, e.attempt, e.exit_code, e.truncated, e.outcome, e.ended, e.kind, p_node,
      e.owner, e.key, e.name, e.error, e.output, e.definition
    from e)
  select e.id, e.version, e.chain,
    case when e.chain is not null and not e.again then pgrab_internal.result_of(e.outcome) end, e.fired,
    not e.once
  from e;
end $$;
comment on function pgrab_internal.finish_rest(pgrab_internal.batch, bigint, text) is
  'The part of finish() for tasks that are planned again, parked, or kept by their chain. Returns the runs '
  'whose fence still matched.';

-- All links at once, so that the locks of their children are taken in one order.
create or replace function pgrab_internal.finish_links(p_ended pgrab_internal.ended[]) returns void
language plpgsql as $$
declare
  v_links bigint[];
  v_chains bigint[];
  v_results text[];
  v_fires timestamptz[];
  v_left bigint[];
  v_counted boolean;
begin
  select array_agg(e.task_id), array_agg(e.chain), array_agg(e.result), array_agg(e.fire_at),
    array_agg(e.task_id) filter (where not e.counted and e.result <> 'failed'), bool_or(e.counted)
  into v_links, v_chains, v_results, v_fires, v_left, v_counted
  from unnest(p_ended) e where e.result is not null;
  if v_links is not null then
    if v_left is not null and pg_relation_size('pgrab.edge') > 0 then
      perform pgrab_internal.edges_leave(v_left);
    end if;
    perform pgrab_internal.chain_advance(v_links, v_chains, v_results, v_fires, v_counted);
  end if;
end $$;
comment on function pgrab_internal.finish_links(pgrab_internal.ended[]) is
  'Continues the chains of links that have ended.';

-- The end of a run is recorded, and its task planned again.  versions and incarnations are the fence: a run
-- whose fence does not match changes nothing and is not returned.
--   failed, attempts left     tried again after its backoff; a run that was lost with its node, at once
--   over, another fire        re-armed: a failure ends a run, never a schedule.  So is a task that was given
--                             a new run_at while it ran
--   over, no other fire       leaves the table when it succeeded or was cancelled; otherwise it is parked
--   over, link of a chain     done, cancelled or parked; leaves as above when the chain runs once
-- What finish_last() has ended is not found again by finish_rest().
create or replace function pgrab_internal.finish_many(
  b pgrab_internal.batch, p_node_id bigint, p_node text)
returns pgrab_internal.ended[]
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_before text := pgrab_internal.link_ends('on');
  v_ended pgrab_internal.ended[] := '{}';
begin
  if 'succeeded' = any (b.outcomes) then
    v_ended := pgrab_internal.finish_last(b, p_node_id, p_node);
  end if;
  if cardinality(v_ended) < cardinality(b.ids) then
    v_ended := v_ended || array(select x from pgrab_internal.finish_rest(b, p_node_id, p_node) x);
  end if;
  perform pgrab_internal.alert(b, v_ended, p_node);
  perform pgrab_internal.finish_links(v_ended);
  if pg_relation_size('pgrab.limit_place') > 0 then
    perform pgrab_internal.limit_give_back(b.ids, b.versions, b.incarnations);
  end if;
  if pg_relation_size('pgrab.cancel_request') > 0 then
    delete from pgrab.cancel_request c using pgrab_internal.batch_rows(b) f
    where c.task_id = any (array[f.id]) and c.version = f.version;
  end if;
  v_before := set_config('pgrab.link_ends', v_before, true);
  return v_ended;
end $$;
comment on function pgrab_internal.finish_many(pgrab_internal.batch, bigint, text) is
  'finish() for any number of runs, with any outcome.';

create or replace function pgrab_internal.finish(b pgrab_internal.batch, p_node_id bigint, p_node text)
returns table (task_id bigint, version bigint)
language plpgsql as $$
declare
  v_done boolean;
begin
  if cardinality(b.ids) = 1 and b.outcomes[1] = 'succeeded' then
    v_done := pgrab_internal.finish_one(b.ids[1], b.versions[1], b.incarnations[1], b.started_us[1],
      b.finished_us[1], b.exit_codes[1], b.outputs[1], b.truncated[1], p_node_id, p_node);
  end if;
  if v_done then
    task_id := b.ids[1];
    version := b.versions[1];
    return next;
  else
    return query select e.task_id, e.version from unnest(pgrab_internal.finish_many(b, p_node_id, p_node)) e;
  end if;
end $$;
comment on function pgrab_internal.finish(pgrab_internal.batch, bigint, text) is
  'Records runs that have ended and plans what comes next. Returns those whose fence, (id, version, '
  'incarnation), still matched.';

create or replace function pgrab_internal.run_key_make(p_incarnation bigint) returns void
language sql as $$
  with gone as (
    delete from pgrab_internal.run_key k
    where k.at < now() - interval '1 day'
      and not exists (select from pgrab.node n where n.incarnation = k.incarnation))
  insert into pgrab_internal.run_key (incarnation, key)
  select p_incarnation, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
  on conflict (incarnation) do nothing
$$;
comment on function pgrab_internal.run_key_make(bigint) is
  'Makes a key for the sql runs of an incarnation that is about to register, and deletes old keys.';

-- A sql run on a connection of the task's owner shows this proof, so that its finish is accepted: only the
-- node that has started the run knows the key, and no two runs have the same proof.
create or replace function pgrab_internal.run_proof(p_incarnation bigint, p_id bigint, p_version bigint)
returns text
language sql stable as $$
  select encode(sha256(k.key || int8send(p_id) || int8send(p_version)), 'hex')
  from pgrab_internal.run_key k where k.incarnation = p_incarnation
$$;
comment on function pgrab_internal.run_proof(bigint, bigint, bigint) is
  'The proof that a node has started this run: a hash of its incarnation''s key, the task and its version.';

create or replace function pgrab_internal.finish_run(
  p_id bigint, p_version bigint, p_incarnation bigint, p_began_us bigint, p_output text, p_truncated boolean,
  p_node_id bigint, p_node text)
returns void
language plpgsql as $$
declare
  v_ended pgrab_internal.ended[];
begin
  if pgrab_internal.finish_one(
    p_id, p_version, p_incarnation, p_began_us, 0, null, p_output, p_truncated, p_node_id, p_node) then
    return;
  end if;
  v_ended := pgrab_internal.finish_many((array[p_id], array[p_version], array[p_incarnation],
    array[p_began_us], array[0]::bigint[], array['succeeded'], array[null]::integer[], array[p_output],
    array[p_truncated], array[null]::text[], null)::pgrab_internal.batch, p_node_id, p_node);
  if v_ended = '{}' then
    perform pgrab_internal.run_lost(p_id);
  end if;
end $$;
comment on function pgrab_internal.finish_run(
  bigint, bigint, bigint, bigint, text, boolean, bigint, text) is
  'Records the success of one run, in the transaction of its work. Raises serialization_failure when the run '
  'no longer belongs to that incarnation, so that the work is rolled back.';
