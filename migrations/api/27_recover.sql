-- Putting back what dead nodes held: found in what their claims wrote (pgrab.hold), never by reading the due
-- tasks.

-- OFFSET 0, so that a task is found only by its key: sessions of nodes avoid sorts, and when a caller orders
-- the result, the planner would rather read all tasks in the order of their keys.
create or replace function pgrab_internal.held(p_incarnation bigint) returns setof pgrab_internal.task
language sql stable
begin atomic
  select t.*
  from pgrab.hold h cross join unnest(h.ids) i(id) cross join lateral (
    select x.* from pgrab.task x where x.id = any (array[i.id]) offset 0) t
  where h.incarnation = p_incarnation and t.incarnation = p_incarnation
    and t.status in ('claimed', 'running');
end;
comment on function pgrab_internal.held is 'The tasks that an incarnation holds.';

-- Looks only between the numbers of those that are up: what they hold, and what they have held since the
-- oldest snapshot, is not read.
create or replace function pgrab_internal.orphans() returns setof bigint
language sql stable
begin atomic
  with recursive up(incarnation) as (
    select -9223372036854775808
    union all
    select n.incarnation from pgrab.node n where not n.down and n.state <> 'down'),
  gap(after, before) as (
    select u.incarnation, lead(u.incarnation, 1, 9223372036854775807) over (order by u.incarnation)
    from up u),
  orphan(incarnation, before) as (
    select h.incarnation, g.before from gap g cross join lateral (
      select x.incarnation from pgrab.hold x
      where x.incarnation > g.after and x.incarnation < g.before order by x.incarnation limit 1) h
    union all
    select h.incarnation, o.before from orphan o cross join lateral (
      select x.incarnation from pgrab.hold x
      where x.incarnation > o.incarnation and x.incarnation < o.before order by x.incarnation limit 1) h)
  select o.incarnation from orphan o;
end;
comment on function pgrab_internal.orphans is
  'Incarnations that hold something but belong to no node that is up.';

-- Serves: lost.sql.
create or replace function pgrab_internal.lost(
  p_incarnation bigint, out incarnation bigint, out id bigint) returns setof record
language sql stable
begin atomic
  select i.incarnation, h.id
  from (
    select p_incarnation as incarnation where p_incarnation is not null
    union all
    select o from pgrab_internal.orphans() o where p_incarnation is null) i
    left join lateral pgrab_internal.held(i.incarnation) h on true;
end;
comment on function pgrab_internal.lost is
  'What an incarnation holds; null: all that belong to no node that is up. A null where it is nothing.';

-- Runs of a dead node, as a batch for finish().  A task that a user has locked waits for the next round, and
-- so does a sql run whose backend could not be ended, because it is still running.
create or replace function pgrab_internal.lost_batch(
  p_incarnation bigint, p_error text, p_only bigint[] default null) returns pgrab_internal.outcomes
language sql as $$
  select (array_agg(h.id order by h.id), array_agg(h.version order by h.id),
    array_agg(h.incarnation order by h.id),
    array_agg((date_part('epoch', statement_timestamp() - h.started_at) * 1e6)::bigint order by h.id),
    array_agg(0::bigint), array_agg('lost'::text), null, null, null,
    array_agg(p_error), null, null)::pgrab_internal.outcomes
  from pgrab_internal.held(p_incarnation) h cross join lateral (
    select from pgrab.task x where x.id = any (array[h.id]) and x.version = h.version
      for update skip locked) free
  where h.status = 'running' and (p_only is null or h.id = any (p_only))
    and not (h.kind = 'sql' and exists (
      select from pg_stat_activity a
      where a.datname = current_database() and a.application_name = 'pgrab sql ' || p_incarnation
        and a.usename = h.owner)) -- anybody can call himself so
$$;
comment on function pgrab_internal.lost_batch is
  'The runs that an incarnation has left behind and that have stopped, locked.';

create or replace function pgrab_internal.batch_one(b pgrab_internal.outcomes, i integer)
  returns pgrab_internal.outcomes
language sql immutable
return (b.ids[i:i], b.versions[i:i], b.incarnations[i:i], b.started_us[i:i], b.finished_us[i:i],
  b.outcomes[i:i], b.exit_codes[i:i], b.outputs[i:i], b.truncated[i:i],
  b.errors[i:i], b.retries_us[i:i], b.costs[i:i])::pgrab_internal.outcomes;
comment on function pgrab_internal.batch_one is 'One run of a batch.';

-- All at once; or, when that is refused or a row that one of them needs is locked, one by one, so that the
-- others are not held up.  What is locked waits for the next round.
create or replace function pgrab_internal.finish_lost(
  b pgrab_internal.outcomes, p_node_id bigint, p_node text)
  returns bigint[]
language plpgsql as $$
declare
  v_done bigint[] := '{}';
  v_why text;
begin
  begin
    return array(select f.task_id from pgrab_internal.finish(b, p_node_id, p_node) f);
  exception when others then
    if sqlstate <> '55P03' and not pgrab_internal.row_fault(sqlstate, sqlerrm) then
      raise;
    end if;
  end;
  perform set_config('lock_timeout', '4ms', true);
  for i in 1 .. cardinality(b.ids) loop
    begin
      v_done := v_done || array(
        select f.task_id from pgrab_internal.finish(pgrab_internal.batch_one(b, i), p_node_id, p_node) f);
    exception
      when lock_not_available then
        null;
      when others then
        if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
          raise;
        end if;
        v_why := sqlerrm;
        begin
          perform pgrab_internal.park(b.ids[i], b.versions[i], b.incarnations[i], 'lost',
            b.errors[i] || ', and that could not be recorded: ' || v_why, p_node, false);
          v_done := v_done || b.ids[i];
        exception when others then -- the next round tries it again
          if sqlstate <> '55P03' and not pgrab_internal.row_fault(sqlstate, sqlerrm) then
            raise;
          end if;
          raise warning 'the loss of a run of task % cannot be recorded: %', b.ids[i], sqlerrm;
        end;
    end;
  end loop;
  return v_done;
end $$;
comment on function pgrab_internal.finish_lost is
  'Finishes runs as lost, one by one when not all can be. Returns those that are done.';

-- Claimed and never started: put back as they are, except those that a user has locked, and what is refused
-- even by itself.
create or replace function pgrab_internal.release_held(p_incarnation bigint, p_only bigint[] default null)
  returns bigint
language plpgsql as $$
declare
  c_moves constant pgrab_internal.move[] := array(
    select pgrab_internal.move_to(h.id, h.version, 'release')
    from pgrab_internal.held(p_incarnation) h cross join lateral (
      select from pgrab.task x where x.id = any (array[h.id]) and x.version = h.version
      for update skip locked) l
    where h.status = 'claimed' and (p_only is null or h.id = any (p_only)) order by h.id);
begin
  return cardinality(pgrab_internal.move(c_moves));
exception when others then
  if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
    raise;
  end if;
  return pgrab_internal.move_each(c_moves);
end $$;
comment on function pgrab_internal.release_held is
  'Puts back what an incarnation has claimed and not started.';

-- When the table is locked (pause_all() in a transaction that is left open) the next round does it: what has
-- been put back stays put back.
create or replace function pgrab_internal.holds_leave(p_incarnation bigint) returns void
language plpgsql as $$
begin
  delete from pgrab.hold h
  where h.incarnation = p_incarnation and not exists (
      select from unnest(h.ids) i(id) cross join lateral (
        select x.status, x.incarnation from pgrab.task x where x.id = any (array[i.id]) offset 0) t
      where t.incarnation = p_incarnation and t.status <> 'waiting')
    and not exists (select from pgrab.limit_place p where p.incarnation = p_incarnation and not p.over);
exception when lock_not_available then
  null;
end $$;
comment on function pgrab_internal.holds_leave is
  'Deletes those rows of pgrab.hold of a dead node whose tasks it no longer holds.';

create or replace function pgrab_internal.live_leave(p_incarnation bigint) returns void
language sql as $$
  delete from pgrab.live l where l.incarnation = p_incarnation;
  delete from pgrab.live_output o where o.incarnation = p_incarnation;
  delete from pgrab.live_request r where r.incarnation = p_incarnation
$$;
comment on function pgrab_internal.live_leave is 'Deletes what the runs of a dead node reported.';

create or replace function pgrab_internal.recover_one(
  p_by text, p_incarnation bigint, p_only bigint[],
  out put_back bigint, out had_run bigint, out parked bigint)
language plpgsql as $$
declare
  b pgrab_internal.outcomes;
  v_node_id bigint;
  v_done bigint[] := '{}';
begin
  put_back := pgrab_internal.release_held(p_incarnation, p_only);
  b := pgrab_internal.lost_batch(p_incarnation,
    'the node that ran it died or lost its lease; seen by ' || p_by, p_only);
  if b.ids is not null then
    select t.node_id into v_node_id from pgrab.task t where t.id = b.ids[1];
    v_done := pgrab_internal.finish_lost(b, v_node_id, (select n.name from pgrab.node n
      where n.id = v_node_id));
  end if;
  had_run := cardinality(v_done);
  put_back := put_back + had_run;
  parked := (select count(*) from unnest(v_done) d(id) cross join lateral (
    select x.status from pgrab.task x where x.id = any (array[d.id]) offset 0) t where t.status = 'parked');
  perform pgrab_internal.limit_recover(p_incarnation);
  perform pgrab_internal.live_leave(p_incarnation);
  perform pgrab_internal.holds_leave(p_incarnation);
end $$;
comment on function pgrab_internal.recover_one is
  'Puts back what one incarnation holds: all, or only some tasks.';

-- Serves: recover.
create or replace function pgrab_internal.recover(
  p_by text, p_incarnation bigint default null, p_only bigint[] default null,
  out put_back bigint, out had_run bigint, out parked bigint)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
begin
  select coalesce(sum(r.put_back), 0), coalesce(sum(r.had_run), 0), coalesce(sum(r.parked), 0)
  into put_back, had_run, parked
  from (
    select p_incarnation as incarnation where p_incarnation is not null
    union all
    select o from pgrab_internal.orphans() o where p_incarnation is null) i
    cross join lateral pgrab_internal.recover_one(p_by, i.incarnation, p_only) r;
end $$;
comment on function pgrab_internal.recover is
  'Puts back what an incarnation holds, or only some tasks. Null: all incarnations that belong to no node '
  'that is up. Returns how many tasks it put back, how many of them had been running, and how many were '
  'parked.';

-- A server that went back (a promoted standby that lacked the last commits) may show tasks as held whose
-- claim has been deleted as over: nothing would ever find them.  So whenever another server or timeline
-- answers, and once a day, all tasks are read once, a slice at a time, and what is missing in pgrab.hold is
-- written there: then recovery finds it, or the node that knows nothing of it.
-- Serves: duties.sql.  Cost: a slice reads 20,000 rows by their key, about 10 ms.
create or replace function pgrab_internal.strays_tick() returns boolean
language plpgsql set enable_seqscan = off set enable_hashjoin = on set jit = off as $$
declare
  c_slice constant integer := 20000;
  c_server constant text := (select s.system_identifier from pg_control_system() s) || ' '
    || left(pg_walfile_name(pg_current_wal_lsn()), 8);
  v_next bigint;
begin
  select case when d.about = c_server then d.next_id end into v_next
  from pgrab.duty d
  where d.duty = 'strays' and (d.about is distinct from c_server or d.next_id is not null
    or d.done_at < clock_timestamp() - interval '1 day')
  for update skip locked;
  if not found then
    return false;
  end if;
  with slice as materialized (
    select t.id, t.status, t.incarnation from pgrab.task t
    where t.id > coalesce(v_next, -9223372036854775808) order by t.id limit c_slice),
  listed as materialized (
    select h.incarnation, i.id from pgrab.hold h cross join unnest(h.ids) i(id)),
  noted as (
    insert into pgrab.hold (incarnation, batch, ids)
    select s.incarnation, -max(s.id), array_agg(s.id)
    from slice s
    where s.incarnation is not null and s.status in ('claimed', 'running')
      and not exists (select from listed l where l.incarnation = s.incarnation and l.id = s.id)
    group by s.incarnation
    on conflict do nothing)
  select max(s.id) into v_next from slice s having count(*) = c_slice;
  update pgrab.duty d set about = c_server, next_id = v_next, done_at = clock_timestamp()
  where d.duty = 'strays';
  return v_next is not null;
end $$;
comment on function pgrab_internal.strays_tick is
  'Searches for tasks that are held without a claim that says so, a slice at a time. Is there more to do?';
