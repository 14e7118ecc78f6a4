-- Steps: what a fire has done already, so that a later attempt does not do it again.
--
-- A step is recorded in a transaction that has the row of its task locked and its fence checked: a run that
-- is not its node's any more records nothing.  The first of a name counts, so what may have been recorded is
-- simply recorded again.  Steps leave with their fire: move_rows() (23_move.sql).

-- What a handler has waited for became a step when no run was under way: the next run found it.  (The time is
-- there for the partitions; that of a run is its node's.)
create or replace function pgrab_internal.steps_of(p_id bigint, p_fire_at timestamptz, p_version bigint)
returns jsonb
language plpgsql stable set enable_seqscan = off as $$
begin
  return (
    select jsonb_agg(jsonb_build_object('name', s.name, 'finished_at', s.finished_at)
      order by s.finished_at, s.name)
    from pgrab.step s
    where s.task_id = p_id and s.fire_at = p_fire_at and (
      s.version = p_version or s.name like 'wait:%' and s.version < p_version and not exists (
        select from pgrab.run r
        where r.task_id = p_id and r.finished_at > s.finished_at - interval '1 hour'
          and r.version >= s.version)));
end $$;
comment on function pgrab_internal.steps_of is 'What the history keeps of the steps of a run.';

-- Null: none.  What is JSON and no jsonb is a NUL in a string, or a number with too many digits.
create or replace function pgrab_internal.step_result(p_json text) returns jsonb
language plpgsql immutable as $$
begin
  return p_json::jsonb;
exception when data_exception or program_limit_exceeded then
  return null;
end $$;
comment on function pgrab_internal.step_result is 'A result as jsonb. Null: it cannot be stored.';

-- What ctx.wait() asks for: the step is there as soon as the signal is.
create or replace function pgrab_internal.wait_result(p_id bigint, p_step text) returns jsonb
language plpgsql stable set enable_seqscan = off as $$
begin
  return (
    select jsonb_build_object('payload', s.payload) from pgrab.signal s
    where s.task_id = p_id and s.name = substr(p_step, 6) and p_step like 'wait:%');
end $$;
comment on function pgrab_internal.wait_result is
  'The result of a step wait:NAME whose signal has come. Null: it has not, or it is another step.';

-- Of a checkpoint the last one counts: it is written over the one before.
--
-- Results are JSON texts; null asks whether there is one.  A row that another session has locked is not
-- waited for.  state: recorded (result is the recorded one, by whichever attempt), none (there is no such
-- step), full (the fire has 1000 already), bad (the result cannot be stored), locked (nothing was done), lost
-- (the run is over).
--
-- Serves: steps_record.sql; step_run().
create or replace function pgrab_internal.steps_record(
  p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_names text[], p_results text[])
returns table (n bigint, state text, result text)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_most constant integer := 1000;
  v_free bigint[];
begin
  select array_agg(l.id) into v_free
  from (select distinct u.* from unnest(p_ids, p_versions, p_incarnations) u(id, version, incarnation)
      order by u.id) a
    cross join lateral (
      select t.id from pgrab.task t
      where t.id = any (array[a.id]) and t.version = a.version and t.incarnation = a.incarnation
        and t.status = 'running'
      for no key update skip locked) l;
  with asked as (
    select distinct on (t.id, a.name) t.id, t.fire_at, t.version, t.steps, a.name, r.result
    from unnest(p_ids, p_versions, p_incarnations, p_names, p_results)
        with ordinality a(id, version, incarnation, name, json, n)
      join pgrab.task t on t.id = any (array[a.id]) and t.version = a.version
        and t.incarnation = a.incarnation and case when t.status = 'running' then true end
      cross join lateral (
        select case when a.json is null then pgrab_internal.wait_result(t.id, a.name)
          else pgrab_internal.step_result(a.json) end as result) r
    where t.id = any (v_free) and r.result is not null and not exists (
      select from pgrab.step s where s.task_id = t.id and s.fire_at = t.fire_at and s.name = a.name
        and s.name <> 'checkpoint')
    order by t.id, a.name, a.n),
  made as (
    insert into pgrab.step (task_id, fire_at, name, result, version)
    select a.id, a.fire_at, a.name, a.result, a.version
    from (select x.*, row_number() over (partition by x.id) as nth from asked x) a
    where coalesce(a.steps, 0) + a.nth <= c_most
    on conflict (task_id, fire_at, name) do update
    set result = excluded.result, version = excluded.version, finished_at = clock_timestamp()
    returning task_id, xmax = 0 as new)
  update pgrab.task t set steps = coalesce(t.steps, 0) + m.made
  from (select x.task_id, count(*) as made from made x where x.new group by x.task_id) m
  where t.id = any (array[m.task_id]);
  return query
  select a.n, case when t.id is null then 'lost' when t.id = any (v_free) is not true then 'locked'
      when s.name is not null then 'recorded' when a.json is null then 'none'
      when pgrab_internal.step_result(a.json) is null then 'bad' else 'full' end, s.result::text
  from unnest(p_ids, p_versions, p_incarnations, p_names, p_results)
      with ordinality a(id, version, incarnation, name, json, n)
    left join pgrab.task t on t.id = any (array[a.id]) and t.version = a.version
      and t.incarnation = a.incarnation and t.status = 'running'
    left join pgrab.step s on s.task_id = t.id and s.fire_at = t.fire_at and s.name = a.name
      and t.id = any (v_free);
end $$;
comment on function pgrab_internal.steps_record is
  'Records steps of runs whose fence, (id, version, incarnation), still matches. Returns what became of '
  'each, by its place in the arrays.';

-- Waits for the row, as the finish of the run does.
create or replace function pgrab_internal.step_run(
  p_id bigint, p_version bigint, p_incarnation bigint, p_name text, p_output text) returns void
language plpgsql as $$
declare
  v_state text;
begin
  perform from pgrab.task t
  where t.id = p_id and t.version = p_version and t.incarnation = p_incarnation and t.status = 'running'
  for no key update;
  select r.state into v_state
  from pgrab_internal.steps_record(array[p_id], array[p_version], array[p_incarnation], array[p_name],
    array[to_json(left(coalesce(p_output, ''), 65536))::text]) r;
  if v_state = 'full' then
    raise exception using errcode = 'program_limit_exceeded',
      message = format('step %s cannot be recorded: the fire has done 1000 others', quote_literal(p_name)),
      hint = 'Edits of the task between its attempts count, too.';
  elsif v_state <> 'recorded' then
    perform pgrab_internal.run_lost(p_id);
  end if;
end $$;
comment on function pgrab_internal.step_run is
  'Records a step of a sql run, in the transaction of its text. Raises serialization_failure when the run '
  'no longer belongs to that incarnation, so that the work is rolled back.';

-- The names, so that handlers ask for no result in vain; a process finds its checkpoint in its environment.
create or replace function pgrab_internal.steps_for(p_id bigint, p_fire_at timestamptz, p_kind text)
returns text
language plpgsql stable set enable_seqscan = off as $$
begin
  if p_kind in ('shell', 'exec') then
    return (
      select pgrab_internal.netstring('env')
        || pgrab_internal.netstring('PGRAB_CHECKPOINT=' || (s.result #>> '{}'))
      from pgrab.step s where s.task_id = p_id and s.fire_at = p_fire_at and s.name = 'checkpoint');
  end if;
  return (
    select pgrab_internal.netstring('steps') || pgrab_internal.netstring(jsonb_agg(s.name)::text)
    from pgrab.step s
    where s.task_id = p_id and s.fire_at = p_fire_at
      and exists (select from pgrab.kind k where k.kind = p_kind and k.handled));
end $$;
comment on function pgrab_internal.steps_for is
  'What the node of a task is told of the steps of its fire, behind the args: handlers a list, processes '
  'their checkpoint.';
