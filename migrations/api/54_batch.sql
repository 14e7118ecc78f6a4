-- Batches: a task of kind batch ends when it is sealed and none of its members is left.
--
-- It waits for that as a task does that waits for a signal (19_wait.sql): it has no due_at, and no node takes
-- it.  The end of a member costs nothing more for it: nobody counts at that moment.  How many there have been
-- is written down by each INSERT, in a row of its own; a node looks about once a second whether a member of a
-- sealed batch is left, and those that left otherwise than by success have written that down.  So no row is
-- hot, and a crash at any statement leaves a batch that the next look ends.

create or replace function pgrab_internal.batch_limit(p_batch bigint) returns text
language sql immutable
return 'batch:' || p_batch;
comment on function pgrab_internal.batch_limit is
  'The limit under which the members of a batch with max_running are.';

-- The limit is its owner's like any other, so it can be raised while the batch runs.
create or replace function pgrab_internal.batches_begin(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off as $$
begin
  insert into pgrab.batch (task_id) select i from unnest(p_ids) i;
  insert into pgrab.limit (key, max_running, owner)
  select pgrab_internal.batch_limit(t.id), (t.args ->> 'max_running')::numeric, t.owner
  from pgrab.task t where t.id = any (p_ids) and t.args ->> 'max_running' is not null
  -- one that was deleted a moment ago is inserted again
  on conflict (key) do update set max_running = excluded.max_running, owner = excluded.owner;
end $$;
comment on function pgrab_internal.batches_begin is 'Tasks of kind batch were inserted.';

create or replace function pgrab_internal.batch_refuse(p_batch bigint, p_hint text) returns void
language sql as $$ select pgrab_internal.refuse('batch', p_batch::text, p_hint) $$;
comment on function pgrab_internal.batch_refuse is 'Refuses a member of a batch.';

create or replace function pgrab_internal.batches_above(p_id bigint) returns bigint[]
language plpgsql stable set enable_seqscan = off set jit = off as $$
begin
  return (
    with recursive up as (
      select p_id as id
      union
      select a.parent_id from up cross join lateral pgrab_internal.parents_of(up.id) a)
    select array_agg(b.task_id) from up join pgrab.batch b on b.task_id = up.id);
end $$;
comment on function pgrab_internal.batches_above is
  'The batches among a task and all that it waits for by its links.';

create or replace function pgrab_internal.batches_around(p_batch bigint) returns bigint[]
language plpgsql stable set enable_seqscan = off set jit = off as $$
begin
  return (
    with recursive out as (
      select p_batch as id
      union
      select t.batch from out join pgrab.task t on t.id = out.id where t.batch is not null)
    select array_agg(o.id) from out o);
end $$;
comment on function pgrab_internal.batches_around is 'A batch, the one that it is a member of, and so on.';

-- Costs nothing while the database has no batch, and little for a chain that has none.
create or replace function pgrab_internal.batch_edge_check(p_chain bigint, p_parent bigint, p_child bigint)
returns void
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  v_above bigint[];
  v_batch bigint;
begin
  if pg_relation_size('pgrab.batch') = 0
    or not exists (select from pgrab.task t where t.chain = p_chain and t.kind = 'batch') then
    return;
  elsif exists (select from pgrab.chain c where c.chain = p_chain and c.root is not null) then
    perform pgrab_internal.chain_refuse(p_parent, p_child,
      'a batch runs once, and its chain would run again and again',
      'Let a link of that chain insert a batch each time.');
  end if;
  v_above := pgrab_internal.batches_above(p_parent);
  with recursive down as (
    select p_child as id where v_above is not null
    union
    select c.child_id from down cross join lateral pgrab_internal.children_of(down.id) c)
  select t.batch into v_batch from down join pgrab.task t on t.id = down.id
  where t.batch is not null and pgrab_internal.batches_around(t.batch) && v_above limit 1;
  if found then
    perform pgrab_internal.chain_refuse(p_parent, p_child,
      format('a member of batch %s would wait for that batch to end', v_batch),
      'A batch ends when its members have, so neither would ever end.');
  end if;
end $$;
comment on function pgrab_internal.batch_edge_check is
  'Refuses an edge by which a member would wait for its own batch, or a batch would run again.';

-- The lock, which members share, keeps the batch from being sealed until they are committed.  Whose batch
-- another one is, is not told.
create or replace function pgrab_internal.batch_join(p_batch bigint, p_owner text, p_members bigint)
returns void
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  v_owner text := (select t.owner from pgrab.task t where t.id = p_batch and t.kind = 'batch');
  v_sealed boolean;
begin
  if v_owner is not null and (v_owner = p_owner or pgrab_internal.may_operate(p_owner)) then
    select b.sealed_at is not null into v_sealed from pgrab.batch b where b.task_id = p_batch for share;
    -- the session that held it may have ended the batch
    v_sealed := (select v_sealed from pgrab.task t where t.id = p_batch);
  end if;
  if v_sealed is null then
    perform pgrab_internal.batch_refuse(p_batch, case when exists (
        select from pgrab.last_run(p_batch, 'ended') r
        where r.kind = 'batch' and (r.owner = p_owner or pgrab_internal.may_operate(p_owner)))
      then 'It has ended, so no member can be added any more: make another one.'
      else 'There is no such batch. Make it first: insert into pgrab.task (kind) values (''batch'') '
        'returning id.' end);
  elsif v_sealed then
    perform pgrab_internal.batch_refuse(p_batch, 'It is sealed, so no member can be added any more.');
  end if;
  insert into pgrab.batch_count (batch, members) values (p_batch, p_members);
end $$;
comment on function pgrab_internal.batch_join is 'Adds members to a batch, or refuses them.';

-- Members of batches with max_running come under its limit.  What the row says is what the INSERT has made.
create or replace function pgrab_internal.batch_bound(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  v_task record;
begin
  select t.id, t.batch, t.limit_key into v_task
  from pgrab.task t join pgrab.task b on b.id = t.batch
  where t.id = any (p_ids) and t.limit_key is not null and b.args ->> 'max_running' is not null limit 1;
  if found then
    perform pgrab_internal.refuse('limit_key', v_task.limit_key, format('The members of batch %s are under '
      'its max_running, so they cannot be under another limit.', v_task.batch));
  end if;
  update pgrab.task t set limit_key = pgrab_internal.batch_limit(t.batch), version = t.version + 1
  from pgrab.task b
  where t.id = any (p_ids) and b.id = t.batch and b.args ->> 'max_running' is not null;
end $$;
comment on function pgrab_internal.batch_bound is
  'Puts new members under the limit of their batch, if it has one.';

create or replace function pgrab_internal.batch_check(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  if t.batch = t.id
    or (case when num_nulls(t.batch, t.parent_id) = 0
      then pgrab_internal.batches_around(t.batch) && pgrab_internal.batches_above(t.parent_id) end) then
    perform pgrab_internal.batch_refuse(t.batch, 'A member cannot wait for its own batch to end.');
  elsif t.batch is not null and t.schedule is not null then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'A member of a batch runs once; a schedule would keep the batch from ending.');
  elsif t.kind = 'batch' and t.schedule is not null then
    perform pgrab_internal.refuse('schedule', t.schedule,
      'A batch runs once: its members are added to it. Let a scheduled task insert a batch each time.');
  elsif t.kind = 'batch' and exists (
    select from pgrab.chain c where c.chain = t.chain and c.root is not null) then
    perform pgrab_internal.refuse('parent_id', t.parent_id::text,
      'A batch runs once, and this chain runs again and again. Let a link of it insert a batch each time.');
  elsif t.kind = 'batch' and num_nonnulls(t.wait_for, t.limit_key) > 0 then
    perform pgrab_internal.refuse('kind', t.kind,
      'A batch only waits for its members: wait_for and limit_key are for them.');
  elsif t.kind = 'batch' and (not (t.args ->> 'max_running')::numeric between 1 and 1000000
      or (t.args ->> 'max_running')::numeric % 1 <> 0) then
    perform pgrab_internal.refuse('args', t.args::text, 'max_running is a whole number from 1 to 1000000.');
  elsif t.kind = 'batch' and t.args ->> 'parked' not in ('wait', 'failed') then
    perform pgrab_internal.refuse('args', t.args::text, 'parked is "wait" (a person retries or cancels '
      'members that are parked; the default) or "failed" (they count as failed).');
  end if;
end $$;
comment on function pgrab_internal.batch_check is
  'Refuses a batch, or a member of one, that could never end.';

-- Members are under the limit from their INSERT on, or never.
create or replace function pgrab_internal.batch_edited(o pgrab_internal.task, t pgrab_internal.task)
returns void
language plpgsql as $$
begin
  if t.kind <> 'batch' or (t.args ->> 'max_running') is not distinct from (o.args ->> 'max_running') then
    return;
  elsif num_nulls(t.args ->> 'max_running', o.args ->> 'max_running') > 0 then
    perform pgrab_internal.refuse('args', t.args::text,
      'A batch has max_running from its INSERT on, or never. Its number can be changed.');
  end if;
  update pgrab.limit l set max_running = (t.args ->> 'max_running')::numeric
  where l.key = pgrab_internal.batch_limit(t.id);
end $$;
comment on function pgrab_internal.batch_edited is 'An edit of max_running changes the limit of a batch.';

-- Waits for members that are not committed.  The rows are written, because a repeatable read transaction that
-- adds members would not hear of a lock; and one cannot do this itself, because it does not see new members.
create or replace function pgrab_internal.batches_lock(p_ids bigint[]) returns void
language plpgsql as $$
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted')
    and exists (select from pgrab.batch b where b.task_id = any (p_ids)
      and b.xmin <> pg_current_xact_id()::xid) then -- nobody else has seen one of this transaction
    raise exception using errcode = '25001',
      message = format('a batch cannot be given up in a %s transaction',
        current_setting('transaction_isolation')),
      hint = 'It does not see the members that others have added meanwhile. Use read committed.';
  end if;
  perform from pgrab.batch b where b.task_id = any (p_ids) order by b.task_id for update;
  update pgrab.batch b set look_at = b.look_at where b.task_id = any (p_ids);
end $$;
comment on function pgrab_internal.batches_lock is
  'No member joins these batches until this transaction ends.';

create or replace function pgrab_internal.batch_deleted(o pgrab_internal.task) returns void
language plpgsql as $$
begin
  if o.kind <> 'batch' then
    return;
  end if;
  perform pgrab_internal.batches_lock(array[o.id]);
  if exists (select from pgrab.task t where t.batch = o.id) then
    raise exception using errcode = '55000', schema = 'pgrab', table = 'task',
      message = format('batch %s has members', o.id),
      hint = format('select pgrab.cancel(%s) gives them up with it. Or delete them in the same statement.',
        o.id);
  end if;
end $$;
comment on function pgrab_internal.batch_deleted is
  'A user deletes a task: a batch must have no member left.';

-- ------------------------------------------------------------------------------------------------ how it is

create type pgrab_internal.batch_figures as (
  members bigint, waiting bigint, running bigint, parked bigint, succeeded bigint, gone bigint,
  begun_at timestamptz);
comment on type pgrab_internal.batch_figures is
  'How many members a batch has had, what those do that are left, how many have left without success, and '
  'when a member that is left has begun last.';

-- Reads the members that are left.
create or replace function pgrab_internal.batch_figures(p_batch bigint) returns pgrab_internal.batch_figures
language sql stable
begin atomic
  select c.members, l.waiting, l.running, l.parked,
    c.members - c.gone - l.waiting - l.running - l.parked, c.gone, l.begun_at
  from (
    select coalesce(sum(n.members), 0)::bigint as members, coalesce(sum(n.gone), 0)::bigint as gone
    from pgrab.batch_count n where n.batch = p_batch) c
    cross join (
      select count(*) filter (where t.status in ('scheduled', 'claimed')
          or t.status = 'waiting' and t.incarnation is null) as waiting,
        count(*) filter (where pgrab_internal.under_way(t.status, t.incarnation)) as running,
        count(*) filter (where t.status = 'parked') as parked, max(t.started_at) as begun_at
      from pgrab.task t where t.batch = p_batch) l;
end;
comment on function pgrab_internal.batch_figures is 'How a batch is.';

-- When no member has begun for long, as this batch goes, nobody knows when it will have ended.
create or replace view pgrab.batches as
select t.id, coalesce(t.name, t.key) as name,
  case when t.status = 'parked' then 'parked' when b.sealed_at is null then 'open' else 'sealed' end
    as status,
  f.members, f.waiting, f.running, f.succeeded, f.parked + f.gone as failed,
  case when f.members > 0
    then floor(100.0 * (f.members - f.waiting - f.running) / f.members)::integer end as percent,
  case when b.sealed_at is not null and t.status = 'waiting' and f.running > 0
      and f.begun_at > statement_timestamp() - greatest('1 min', 3 * e.each)
    then date_trunc('second', statement_timestamp() + (f.waiting + f.running) * e.each) end as eta
from pgrab.task t join pgrab.batch b on b.task_id = t.id
  cross join lateral pgrab_internal.batch_figures(t.id) f
  cross join lateral (select (statement_timestamp() - t.created_at)
    / nullif(f.members - f.waiting - f.running, 0)::float8 as each) e
where t.kind = 'batch';
comment on view pgrab.batches is
  'Batches that have not ended. Reads the members that are left. Those that have ended: pgrab.history.';
comment on column pgrab.batches.id is 'Number of the batch, which is a task.';
comment on column pgrab.batches.name is 'Its name, or its key.';
comment on column pgrab.batches.status is
  'open (members can be added), sealed (it ends when none is left), parked (it has ended, and members have '
  'failed).';
comment on column pgrab.batches.members is 'How many members it has had.';
comment on column pgrab.batches.waiting is 'Members that have not started, or are between two attempts.';
comment on column pgrab.batches.running is 'Members that are running.';
comment on column pgrab.batches.succeeded is 'Members that have succeeded.';
comment on column pgrab.batches.failed is 'Members that are parked, or have ended without success.';
comment on column pgrab.batches.percent is 'How many of a hundred members have ended.';
comment on column pgrab.batches.eta is
  'When it will have ended, if the rest takes as long as what is done. Null: that cannot be said, or no '
  'member has begun for three times as long as one has taken so far, and for a minute.';

create or replace function pgrab_internal.explain_batch(t pgrab_internal.task)
returns setof pgrab_internal.gate
language sql stable
begin atomic
  select 'members', case when b.sealed_at is null or x.left_over > 0 and f.waiting + f.running = 0
      then 'blocked' else 'waits' end,
    case when b.sealed_at is null
        then format('Open, %s of %s members have ended. It can end when no more are to come: '
          'select pgrab.seal(%s).', f.members - f.waiting - f.running, f.members, t.id)
      else format('Sealed, %s of %s members have not ended.', f.waiting + f.running + x.left_over, f.members)
      end || case when f.parked > 0
        then format(' Parked: %s. select pgrab.retry(%s) tries them again, pgrab.cancel(%2$s) gives up.',
          f.parked, t.id) else '' end,
    case when b.sealed_at is null then 'the batch is open' else format('waits for %s of %s members',
      f.waiting + f.running + x.left_over, f.members) end
  from pgrab.batch b cross join lateral pgrab_internal.batch_figures(t.id) f
    cross join lateral (
      select case when t.args ->> 'parked' = 'failed' then 0 else f.parked end as left_over) x
  where b.task_id = t.id and t.status = 'waiting';
end;
comment on function pgrab_internal.explain_batch is 'The gate of a batch''s members.';

-- -------------------------------------------------------------------------------------------- what people do

create or replace function pgrab_internal.seal(p_ids bigint[], p_by text) returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_ids bigint[];
begin
  perform pgrab_internal.control_refuse(l,
    format('Only a batch is sealed, and this is a task of kind %s.', l.kind))
  from pgrab_internal.control_lock(p_ids, 'seal', p_by) l where l.kind <> 'batch';
  with s as (
    update pgrab.batch b set sealed_at = clock_timestamp(), look_at = clock_timestamp()
    where b.task_id = any (p_ids) and b.sealed_at is null returning b.task_id)
  select array_agg(s.task_id) into v_ids from s;
  if v_ids is not null then
    perform pg_notify('pgrab', 'waits');
  end if;
  return query select t.* from pgrab.task t where t.id = any (v_ids) order by t.id;
end $$;
comment on function pgrab_internal.seal is 'pgrab.seal() for a caller.';

create or replace function pgrab.seal(p_tasks anycompatible) returns setof pgrab_internal.task
language sql as $$ select * from pgrab_tool.on_tasks('seal', pgrab_tool.ids_of(p_tasks)) $$;
comment on function pgrab.seal(anycompatible) is
  'These batches get no more members, and end when all of them have. Returns the rows of those that were '
  'open.';

-- p_parked: only what is parked; a batch of which nothing is stays itself, so that it is refused.
create or replace function pgrab_internal.batch_ids(p_ids bigint[], p_parked boolean, p_by text)
returns bigint[]
language plpgsql stable set enable_seqscan = off set jit = off as $$
begin
  if p_ids is null or not exists (select from pgrab.batch b where b.task_id = any (p_ids)) then
    return p_ids;
  end if;
  return (
    with recursive m as (
      select i as id from unnest(p_ids) i
      union
      select t.id from m join pgrab.batch b on b.task_id = m.id join pgrab.task t on t.batch = b.task_id
      where not pgrab_internal.ended(t.status) and (t.owner = p_by or pgrab_internal.may_operate(p_by))
        or t.status = 'parked'),
    parked as materialized (
      select t.id from m join pgrab.task t on t.id = any (array[m.id]) where t.status = 'parked')
    select array_agg(m.id order by m.id) from m
    where not p_parked or m.id in (select p.id from parked p)
      or m.id = any (p_ids) and not (exists (select from parked)
        and exists (select from pgrab.batch b where b.task_id = m.id)));
end $$;
comment on function pgrab_internal.batch_ids is 'These tasks, and the members of those that are batches.';

-- An INSERT of members that is not committed yet holds the row of its batch: it is waited for, and none joins
-- until this transaction ends.  What came in the meantime may be a batch, too.  The task's row is locked
-- first, as who seals a batch does, and who looks whether it has ended.
create or replace function pgrab_internal.batch_close(p_ids bigint[], p_by text) returns bigint[]
language plpgsql as $$
declare
  v_ids bigint[];
  v_all bigint[] := p_ids;
begin
  if not exists (select from pgrab.batch b where b.task_id = any (p_ids)) then
    return p_ids;
  end if;
  while v_all is distinct from v_ids loop
    v_ids := v_all;
    perform from pgrab.task t
    where t.id = any (v_ids) and t.kind = 'batch' and (t.owner = p_by or pgrab_internal.may_operate(p_by))
    order by t.id for update;
    perform pgrab_internal.batches_lock(array(
      select t.id from pgrab.task t where t.id = any (v_ids) and t.kind = 'batch'
        and (t.owner = p_by or pgrab_internal.may_operate(p_by))));
    v_all := pgrab_internal.batch_ids(p_ids, false, p_by);
  end loop;
  return v_all;
end $$;
comment on function pgrab_internal.batch_close is
  'These tasks, and the members of those that are batches, which get no more of them from now on.';

-- --------------------------------------------------------------------------------------------- how it ends

-- Probes first: members that can run now, then the others; one that is left ends the search.
create or replace function pgrab_internal.batch_left(p_batch bigint, p_parked boolean) returns boolean
language plpgsql stable set enable_seqscan = off set jit = off as $$
begin
  return exists (select from pgrab.task m where m.batch = p_batch and m.due_at is not null)
    or exists (select from pgrab.task m where m.batch = p_batch and m.due_at is null
      and (not pgrab_internal.ended(m.status) or m.status = 'parked' and p_parked));
end $$;
comment on function pgrab_internal.batch_left is
  'Is a member of a batch left? p_parked: those that are parked count.';

-- When another session has a link below it locked, the next look ends it.
create or replace function pgrab_internal.batch_end(t pgrab_internal.task) returns void
language plpgsql set lock_timeout = '20ms' as $$
declare
  f constant pgrab_internal.batch_figures := pgrab_internal.batch_figures(t.id);
  c_failed constant bigint := f.parked + f.gone;
  r pgrab_internal.note := pgrab_internal.note(case c_failed when 0 then 'succeeded' else 'failed' end,
    case when c_failed > 0 then format('%s of %s members have not succeeded', c_failed, f.members) end);
begin
  r.output := format('%s members, %s succeeded', f.members, f.succeeded);
  perform pgrab_internal.move(array[pgrab_internal.move_to(t.id, t.version,
    case c_failed when 0 then 'succeed' else 'park' end, p_fires => t.fires + 1, p_run => r)]);
exception
  when lock_not_available or deadlock_detected then
    null;
  when others then
    if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
      raise;
    end if;
    raise warning 'batch % could not be ended: %', t.id, sqlerrm;
end $$;
comment on function pgrab_internal.batch_end is 'Ends a batch of which no member is left.';

-- The more sealed batches there are, the more seldom each is looked at: a thousand in a second.
-- Serves: waits.sql.
create or replace function pgrab_internal.batches_tick(out looked bigint, out next_us bigint)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_now constant timestamptz := clock_timestamp();
  c_next constant interval := interval '1 ms' * greatest(1000, (select count(*) from pgrab.batch b
    where b.look_at is not null));
  v_ids bigint[];
  v_id bigint;
  t pgrab_internal.task;
begin
  if pgrab_internal.duty_take('batches', '1 minute') then
    perform pgrab_internal.batches_leave();
  end if;
  v_ids := array(
    select b.task_id from pgrab.batch b where b.look_at <= c_now order by b.look_at limit 100
    for update skip locked);
  foreach v_id in array v_ids loop
    select x.* into t from pgrab.task x where x.id = v_id for update skip locked;
    if pgrab_internal.waits_outside(t.status, t.chain, t.needs, t.incarnation)
      and not pgrab_internal.batch_left(v_id, t.args ->> 'parked' is distinct from 'failed') then
      perform pgrab_internal.batch_end(t);
    end if;
    -- what has become of members in the meantime goes into one row
    with n as (
      delete from pgrab.batch_count c where c.id = any (array(
        select x.id from pgrab.batch_count x where x.batch = v_id limit 1000 for update skip locked))
      returning c.members, c.gone)
    insert into pgrab.batch_count (batch, members, gone)
    select v_id, sum(n.members), sum(n.gone) from n having count(*) > 0;
    update pgrab.batch b set look_at = clock_timestamp() + c_next where b.task_id = v_id;
  end loop;
  looked := cardinality(v_ids);
  select (date_part('epoch', b.look_at - clock_timestamp()) * 1e6)::bigint into next_us
  from pgrab.batch b where b.look_at is not null order by b.look_at limit 1;
end $$;
comment on function pgrab_internal.batches_tick is
  'Ends sealed batches of which no member is left. Returns how many it looked at, and in how many '
  'microseconds it is time to look again. Null: none is sealed.';

create or replace function pgrab_internal.batches_leave() returns void
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  v_gone bigint[];
begin
  with gone as (
    delete from pgrab.batch b
    where not exists (select from pgrab.task t where t.id = any (array[b.task_id]))
    returning b.task_id)
  select array_agg(g.task_id) into v_gone from gone g;
  delete from pgrab.limit l where l.key in (select pgrab_internal.batch_limit(g) from unnest(v_gone) g);
  delete from pgrab.batch_count c where c.batch = any (v_gone);
end $$;
comment on function pgrab_internal.batches_leave is 'Forgets batches whose task has left.';
