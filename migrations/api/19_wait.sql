-- Waiting for something from outside, first part: who waits, and what has come.  53_signal.sql has what
-- people and time do with it; 57_answer.sql, what the receivers of requests do.
--
-- A task with wait_for starts, in each of its fires, only after a signal of that name has come.  Until then
-- it is `waiting`, as a link is that waits for its parents, and after them: it has no due_at, no node reads
-- it, and a row of pgrab.wait says until when.  The door (23_move.sql) makes it wait: what would become
-- scheduled without its signal becomes waiting instead, whichever way it comes.
--
-- A handler may wait in the middle of its fire (ctx.wait): its run ends with outcome waited, and the same row
-- says for what.  What has become of it, the signal or the end of its time, is a step with the name wait:NAME
-- (22_step.sql), where the next run finds it.  So a run that begins too early waits once more, and no harm is
-- done.

create or replace function pgrab_internal.waits_outside(
  p_status text, p_chain bigint, p_needs integer, p_incarnation bigint)
returns boolean
language sql immutable parallel safe
return p_status = 'waiting' and p_incarnation is null
  and (p_chain is null or p_needs = 0 and p_needs is not null);
comment on function pgrab_internal.waits_outside is
  'Does a task wait for a signal, or its members, and not, or no more, for its parents?';

-- A request with `await` has been accepted.  The task keeps the name of its run, (incarnation, version), and
-- nobody holds it: for dead nodes only what is claimed or running is looked at.
create or replace function pgrab_internal.awaits(p_status text, p_incarnation bigint) returns boolean
language sql immutable parallel safe
return p_status = 'waiting' and p_incarnation is not null;
comment on function pgrab_internal.awaits is 'Does a run of a task wait for its answer?';

create or replace function pgrab_internal.under_way(p_status text, p_incarnation bigint) returns boolean
language sql immutable parallel safe
return p_status = 'running' or p_status = 'waiting' and p_incarnation is not null;
comment on function pgrab_internal.under_way is
  'Is there a run of a task that has not ended: by a node, or at the receiver of its request?';

-- A run that ended to wait has cost no attempt, but a step (23_move.sql).
create or replace function pgrab_internal.has_begun(p_attempt integer, p_steps integer) returns boolean
language sql immutable parallel safe
return p_attempt > 0 or coalesce(p_steps, 0) > 0;
comment on function pgrab_internal.has_begun is 'Has there been a run of the current fire of a task?';

-- A signal is for one fire: what has come for the last one does not count for the next.
create or replace function pgrab_internal.lacks_signal(p_id bigint, p_wait_for text, p_event text)
returns boolean
language sql stable
return p_event = 'next' or not exists (
  select from pgrab.signal s where s.task_id = p_id and s.name = p_wait_for);
comment on function pgrab_internal.lacks_signal is 'Has the signal that a task waits for yet to come?';

create or replace function pgrab_internal.signals_of(p_id bigint) returns jsonb
language plpgsql stable as $$
begin
  return (
    select jsonb_agg(jsonb_build_object('name', s.name, 'payload', s.payload, 'role', s.role, 'at', s.at)
      order by s.at)
    from pgrab.signal s where s.task_id = p_id);
end $$;
comment on function pgrab_internal.signals_of is
  'The signals of the current fire of a task, for the history. Null: none.';

-- Parked without a run: there was no attempt.
create or replace function pgrab_internal.in_vain(t pgrab_internal.task) returns boolean
language sql immutable parallel safe
return t.status = 'parked' and t.attempt = 0 and t.last_outcome = 'timed_out';
comment on function pgrab_internal.in_vain is 'Is a task parked because its signal has not come in time?';

-- The clock decides, also while there is no node that could end the wait.  p_name: null for an answer.
create or replace function pgrab_internal.wait_passed(p_id bigint, p_name text) returns timestamptz
language sql volatile
return (select w.until from pgrab.wait w
  where w.task_id = p_id and w.name is not distinct from p_name and w.until <= clock_timestamp());
comment on function pgrab_internal.wait_passed is
  'When the wait of a task was over that nobody has ended yet. Null: there is none, or it is not over.';

-- For an answer a run may take what is left of its `timeout`; without a beat no longer than `stall_after`.
create or replace function pgrab_internal.answer_until(t pgrab_internal.task) returns timestamptz
language sql volatile
return least(t.started_at + t.timeout, clock_timestamp() + t.stall_after);
comment on function pgrab_internal.answer_until is 'Until when the answer to a request may come, as of now.';

-- The node that runs the duties asks at least once a minute when the next wait is over: only what is over
-- before it asks again needs a NOTIFY.
create or replace function pgrab_internal.waits_ring(p_until timestamptz) returns void
language plpgsql as $$
begin
  if p_until < clock_timestamp() + interval '70 s' then
    perform pg_notify('pgrab', 'waits');
  end if;
end $$;
comment on function pgrab_internal.waits_ring is
  'Tells the node that ends waits of a new one, if it would be late otherwise.';

-- Who waits already goes on waiting, unless its time has changed.
create or replace function pgrab_internal.waits_begin(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_until timestamptz;
begin
  with begun as (
    insert into pgrab.wait as w (task_id, name, since, until)
    select t.id, case when not a.awaits then coalesce(t.wait_for, '(members)') end, b.since,
      case when a.awaits then pgrab_internal.answer_until(row(t.*)::pgrab_internal.task)
        else b.since + t.wait_timeout end
    from unnest((select p_ids)) i(id) join pgrab.task t on t.id = any (array[i.id])
      left join pgrab.wait o on o.task_id = any (array[t.id])
      cross join lateral (select pgrab_internal.awaits(t.status, t.incarnation) as awaits) a
      cross join lateral (
        select case when not a.awaits and greatest(t.fire_at, t.run_at) > clock_timestamp()
            then greatest(t.fire_at, t.run_at)
          else least(o.since, clock_timestamp()) end as since) b
    where a.awaits or (t.wait_for is not null or t.kind = 'batch')
      and pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation)
    on conflict (task_id) do update
    set name = excluded.name, since = excluded.since, until = excluded.until, goes_on = false,
      told = case when excluded.since > w.since then '0' else w.told end
    returning w.until)
  select min(b.until) into v_until from begun b;
  perform pgrab_internal.waits_ring(v_until);
end $$;
comment on function pgrab_internal.waits_begin is
  'Writes down until when tasks wait that wait for a signal, an answer or members from now on.';

-- p_fresh: those of these tasks that are gone, or whose next fire is planned.
create or replace function pgrab_internal.waits_end(p_ids bigint[], p_fresh bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  if pg_relation_size('pgrab.wait') > 0 then
    delete from pgrab.wait w using unnest((select p_ids)) i(id)
    where w.task_id = any (array[i.id]) and (i.id = any (p_fresh) or not exists (
      select from pgrab.task t
      where t.id = any (array[i.id]) and case when w.name is null
        then pgrab_internal.awaits(t.status, t.incarnation)
        else pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation) end));
  end if;
  if pg_relation_size('pgrab.signal') > 0 then
    delete from pgrab.signal s using unnest((select p_fresh)) i(id) where s.task_id = any (array[i.id]);
  end if;
end $$;
comment on function pgrab_internal.waits_end is
  'Forgets the waits of tasks that wait no more, and the signals of fires that are over.';
