-- Waiting for something from outside, second part: signals, and waits that were in vain.  See 19_wait.sql.
--
-- Who sends a signal and the end of a wait both lock the task's row first, and then look whether it still
-- waits: so of two that come at the same moment the second finds what the first has done.

create or replace function pgrab_internal.signal_due(t pgrab_internal.task) returns timestamptz
language sql
return greatest(clock_timestamp(),
  greatest(t.fire_at, t.run_at) + pgrab_internal.jitter_of(t.id, t.jitter));
comment on function pgrab_internal.signal_due is
  'When a task is due whose signal has come: at once, or at its planned time if that is later.';

create or replace function pgrab_internal.signal_move(t pgrab_internal.task) returns pgrab_internal.move
language sql
return pgrab_internal.move_to(t.id, t.version, 'signal', p_due_at => pgrab_internal.signal_due(t));
comment on function pgrab_internal.signal_move is 'The move of a task whose signal has come.';

-- A member of pgrab_signal may approve everything; the owner of a task may name a role for its signals.
create or replace function pgrab_internal.may_signal(p_owner text, p_signal_by text, p_by text)
returns boolean
language sql stable
return p_owner = p_by or pgrab_internal.may_operate(p_by)
  or pgrab_internal.is_member(p_by, p_signal_by) or pgrab_internal.is_member(p_by, 'pgrab_signal');
comment on function pgrab_internal.may_signal is 'May this role send the signals of a task?';

create or replace function pgrab_internal.signal_check(
  t pgrab_internal.task, p_name text, p_payload jsonb) returns void
language plpgsql as $$
declare
  -- not that of a handler, which goes on: for it a signal that comes too late is none
  c_over constant timestamptz := case when p_name is distinct from t.wait_for then null
    when pgrab_internal.in_vain(t) then t.last_finished_at
    else (select pgrab_internal.wait_passed(t.id, w.name) from pgrab.wait w
      where w.task_id = t.id and w.name = t.wait_for and not w.goes_on) end;
begin
  if pgrab_internal.signal_name_fine(p_name) is not true then
    raise exception using errcode = '22023',
      message = format('the name of a signal cannot be %s',
        coalesce(quote_literal(left(p_name, 200)), 'null')),
      hint = 'It is 1 to 100 letters, digits, ''_'', ''-'', ''.'' or '':''.';
  elsif octet_length(p_payload::text) > 65536 then
    raise exception using errcode = '22023',
      message = format('the payload of a signal cannot be %s bytes long', octet_length(p_payload::text)),
      hint = 'It may be at most 64 KiB long. Put large data in a table and send its key.';
  elsif p_name is distinct from t.wait_for and not exists (
    select from pgrab.kind k where k.kind = t.kind and k.handled) then
    raise exception using errcode = '22023', schema = 'pgrab', table = 'task', column = 'wait_for',
      message = format('task %s does not wait for signal %L', t.id, p_name),
      hint = case when t.wait_for is null then 'It waits for none: set wait_for to the name of one.'
        else format('It waits for %L.', t.wait_for) end;
  elsif pgrab_internal.is_over(t.status) then
    perform pgrab_internal.control_refuse(t,
      'It has ended in this run of its chain; its next fire needs a signal of its own.');
  elsif c_over is not null then
    raise exception using errcode = '55000', schema = 'pgrab', table = 'task', column = 'wait_for',
      message = format('the wait of task %s for signal %L is over', t.id, p_name),
      hint = format('Its time was over at %s. %s', pgrab_internal.cut(c_over),
        case when t.status = 'parked' then format('pgrab.retry(%s) waits once more.', t.id)
          else 'A node has yet to end it.' end);
  elsif p_name is distinct from t.wait_for
    and (select count(*) from pgrab.signal s where s.task_id = t.id) >= 1000 then
    raise exception using errcode = '54000',
      message = format('task %s has been sent 1000 signals for this fire', t.id),
      hint = 'No more are kept.';
  end if;
end $$;
comment on function pgrab_internal.signal_check is 'Refuses a signal that a task cannot get.';

-- As control_lock(), with the rights for signals.
create or replace function pgrab_internal.signal_lock(p_ids bigint[], p_by text)
returns setof pgrab_internal.task
language plpgsql as $$
begin
  return query select t.* from pgrab.task t
    where t.id = any (p_ids) and pgrab_internal.may_signal(t.owner, t.signal_by, p_by)
    order by t.id for update;
  perform pgrab_internal.control_lock(array_agg(i), 'signal', p_by) -- says why
  from unnest(p_ids) i
  where i is null or not exists (select from pgrab.task t
    where t.id = i and pgrab_internal.may_signal(t.owner, t.signal_by, p_by))
  having count(*) > 0;
end $$;
comment on function pgrab_internal.signal_lock is
  'Locks the tasks that are sent a signal, in id order; refuses those that do not exist for the caller.';

-- What handlers wait for in their runs, one name for all of them.
create or replace function pgrab_internal.waits_over(p_ids bigint[], p_result jsonb)
returns pgrab_internal.move[]
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  insert into pgrab.step (task_id, fire_at, name, result, version)
  select t.id, t.fire_at, 'wait:' || w.name, p_result, t.version
  from unnest((select p_ids)) i(id) join pgrab.task t on t.id = any (array[i.id])
    join pgrab.wait w on w.task_id = any (array[i.id])
  on conflict (task_id, fire_at, name) do nothing;
  return (
    select array_agg(pgrab_internal.move_to(t.id, t.version, 'go_on', p_due_at => clock_timestamp())
      order by t.id)
    from unnest((select p_ids)) i(id) join pgrab.task t on t.id = any (array[i.id]));
end $$;
comment on function pgrab_internal.waits_over is
  'Records what has become of the waits of handlers, for the runs that go on. Returns the moves to make.';

create or replace function pgrab_internal.signal(p_ids bigint[], p_name text, p_payload jsonb, p_by text)
returns setof pgrab_internal.task
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_new bigint[];
  v_go_on bigint[];
  v_moves pgrab_internal.move[];
begin
  perform pgrab_internal.signal_check(l, p_name, p_payload) from pgrab_internal.signal_lock(p_ids, p_by) l;
  with sent as (
    insert into pgrab.signal (task_id, name, payload, role)
    select distinct t.id, p_name, p_payload, p_by from pgrab.task t
    where t.id = any (p_ids) and (t.steps is null or not exists (
        select from pgrab.step s
        where s.task_id = t.id and s.fire_at = t.fire_at and s.name = 'wait:' || p_name)
      and pgrab_internal.wait_passed(t.id, p_name) is null)
    on conflict (task_id, name) do nothing returning task_id)
  select array_agg(s.task_id order by s.task_id) into v_new from sent s;
  -- where it is not that of wait_for, the end must be looked at: steps says so to the plain finish
  perform pgrab_tool.edit(t.id, '{"steps": 0}') from pgrab.task t
  where t.id = any (v_new) and t.steps is null and t.wait_for is distinct from p_name;
  select array_agg(pgrab_internal.signal_move(row(t.*)::pgrab_internal.task) order by t.id)
      filter (where w.goes_on is not true),
    array_agg(t.id order by t.id) filter (where w.goes_on)
  into v_moves, v_go_on
  from pgrab.task t left join pgrab.wait w on w.task_id = t.id
  where t.id = any (v_new) and coalesce(w.name, t.wait_for) = p_name
    and pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation);
  perform pgrab_internal.move(v_moves
    || pgrab_internal.waits_over(v_go_on, jsonb_build_object('payload', p_payload)));
  return query select t.* from pgrab.task t where t.id = any (v_new) order by t.id;
end $$;
comment on function pgrab_internal.signal is 'pgrab.signal() for a caller.';

create or replace function pgrab.signal(p_tasks anycompatible, p_name text, p_payload jsonb default null)
returns setof pgrab_internal.task
language sql as $$
  select * from pgrab_tool.on_tasks('signal', pgrab_tool.ids_of(p_tasks), p_name, p_payload)
$$;
comment on function pgrab.signal(anycompatible, text, jsonb) is
  'Sends these tasks the signal that they wait for (wait_for, or ctx.wait), for their current fire, or the '
  'one that is planned. It is kept if it comes before they wait, and the first of a name counts. Their run '
  'gets the payload. Returns the rows of those that had not had it.';

-- ------------------------------------------------------------------------------------------- waits in vain

-- As after a run that has failed for good.
create or replace function pgrab_internal.wait_over(t pgrab_internal.task, p_why text)
returns pgrab_internal.move
language plpgsql as $$
declare
  c_next constant timestamptz :=
    case when t.chain is null then pgrab_internal.fire_following(t, t.fires + 1) end;
  c_note constant pgrab_internal.note := pgrab_internal.note('timed_out', p_why);
begin
  if c_next is null then
    return pgrab_internal.move_to(t.id, t.version, 'expire', p_fires => t.fires + 1, p_run => c_note);
  end if;
  return pgrab_internal.move_to(t.id, t.version, 'next', p_fire_at => c_next, p_run_at => c_next,
    p_attempt => 0, p_fires => t.fires + 1, p_settled => false, p_run => c_note);
end $$;
comment on function pgrab_internal.wait_over is 'What becomes of a task whose signal has not come in time.';

-- The caller has locked the tasks.
create or replace function pgrab_internal.waits_expire(p_ids bigint[], p_now timestamptz) returns bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_go_on bigint[];
  v_moves pgrab_internal.move[];
begin
  select array_agg(pgrab_internal.wait_over(row(t.*)::pgrab_internal.task,
      format('signal %s did not come within %s', w.name, date_trunc('milliseconds', w.until - w.since)))
      order by t.id) filter (where not w.goes_on),
    array_agg(t.id order by t.id) filter (where w.goes_on)
  into v_moves, v_go_on
  from unnest((select p_ids)) i(id) join pgrab.task t on t.id = any (array[i.id])
    join pgrab.wait w on w.task_id = any (array[i.id]) and w.until <= p_now
  where pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation);
  return cardinality(pgrab_internal.move(
    v_moves || pgrab_internal.waits_over(v_go_on, '{"timed_out": true}')))
    + pgrab_internal.answers_over(p_ids, p_now);
end $$;
comment on function pgrab_internal.waits_expire is
  'Ends the waits of these tasks that are over. Returns how many.';

-- Of one whose link another session has locked, or whose next fire cannot be worked out, the wait is over
-- a little later, so that it is not among the first each time.
create or replace function pgrab_internal.waits_expire_each(p_ids bigint[], p_now timestamptz) returns bigint
language plpgsql set lock_timeout = '4ms' as $$
declare
  v_over bigint := 0;
  v_id bigint;
begin
  foreach v_id in array p_ids loop
    begin
      v_over := v_over + pgrab_internal.waits_expire(array[v_id], p_now);
    exception
      when lock_not_available or deadlock_detected then
        update pgrab.wait w set until = clock_timestamp() + interval '1 s' where w.task_id = v_id;
      when others then
        if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
          raise;
        end if;
        raise warning 'the wait of task % could not be ended: %', v_id, sqlerrm;
        update pgrab.wait w set until = clock_timestamp() + interval '1 min' where w.task_id = v_id;
    end;
    exit when clock_timestamp() > p_now + interval '1 s';
  end loop;
  return v_over;
end $$;
comment on function pgrab_internal.waits_expire_each is 'waits_expire(), one by one.';

-- Never early: the database's clock decides.  A task that another session has locked is left to the next
-- call.
-- Serves: waits.sql.
create or replace function pgrab_internal.waits_tick(
  p_most integer default 1000, out over bigint, out next_us bigint)
language plpgsql
set enable_seqscan = off set enable_sort = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_now constant timestamptz := clock_timestamp();
  v_ids bigint[];
begin
  v_ids := array(
    select w.task_id from pgrab.wait w cross join lateral (
      select from pgrab.task t where t.id = any (array[w.task_id]) for update skip locked) l
    where w.until <= c_now order by w.until limit p_most);
  over := 0;
  if v_ids <> '{}' then
    begin
      over := pgrab_internal.waits_expire(v_ids, c_now);
    exception when others then
      if sqlstate not in ('55P03', '40P01') and not pgrab_internal.row_fault(sqlstate, sqlerrm) then
        raise;
      end if;
      over := pgrab_internal.waits_expire_each(v_ids, c_now);
    end;
  end if;
  delete from pgrab.wait w
  where w.task_id = any (array(
      select x.task_id from pgrab.wait x where x.until <= c_now order by x.until limit p_most))
    and not exists (select from pgrab.task t where t.id = any (array[w.task_id]));
  select (date_part('epoch', w.until - clock_timestamp()) * 1e6)::bigint into next_us
  from pgrab.wait w where w.until is not null order by w.until limit 1;
end $$;
comment on function pgrab_internal.waits_tick is
  'Ends the fires of tasks whose signal, and the runs whose answer, has not come in time, or lets their '
  'handlers go on. Returns how many, and in how many microseconds the next wait is over. Null: none ends.';

create or replace view pgrab.waits as
select t.id, coalesce(t.name, t.key) as name, t.kind, coalesce(w.name, '(answer)') as waits_for,
  date_trunc('second', w.since) as since, date_trunc('second', w.until) as until, t.signal_by, t.paused,
  w.progress, pgrab_internal.brief(w.progress_text, 30) as progress_text
from pgrab.wait w join pgrab.task t on t.id = w.task_id
where case when w.name is null then pgrab_internal.awaits(t.status, t.incarnation)
  else pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation) end;
comment on view pgrab.waits is
  'Tasks that wait for a signal, which pgrab.signal(id, waits_for) sends, for the answer to a request, or '
  'for their members.';
comment on column pgrab.waits.id is 'Number of the task.';
comment on column pgrab.waits.name is 'Its name, or its key.';
comment on column pgrab.waits.kind is 'What carries it out.';
comment on column pgrab.waits.waits_for is
  'The signal; (answer): the receiver of its request has yet to call back; or (members): it is a batch.';
comment on column pgrab.waits.since is
  'From when on it waits: its planned time, which may be yet to come, the end of its parents, or that of its '
  'run or request.';
comment on column pgrab.waits.until is
  'When its fire, or its run, ends as timed_out, or its handler goes on without the signal. Null: never.';
comment on column pgrab.waits.signal_by is
  'Whose members may send it, beside those who may control the task.';
comment on column pgrab.waits.paused is 'True: it does not start after its signal either.';
comment on column pgrab.waits.progress is
  'How far the receiver of its request is, in percent, as it last said. Null: it has not.';
comment on column pgrab.waits.progress_text is 'What it is doing; the first 30 characters.';
