-- Limits: at most max_running of a key at once, at most per_second starts, over all nodes.
--
--   claimed --- limit_take: is there a place? --- yes: started
--                                    \____ no: waits in line (scheduled, without due_at)
--   finish, or the clock --- limit_wake: keeps free places for the first in line, and makes them due
--
-- Every change to how a key is used is made under its lock, row 0 of the key in pgrab.limit_use; tasks with
-- other keys, or none, never wait for it.  The lock is not the row in pgrab.limit, which users may have
-- locked.  A place is counted when it is taken and when it is given back, in the same transaction as its row,
-- so that nothing ever reads all places of a key.  (That is what `case when p.key = ...` is for: a place is
-- found by its task.  Without it, the planner may think that a table which was vacuumed while empty is small
-- enough to find all places of a key first.)  A place belongs to a run: it is given back by the run's finish,
-- the recovery of its incarnation, or whatever else ends that run, and not because the task's row is gone.
--
-- A task may need several places: under the quotas with max_running that it is under (24_quota.sql), each of
-- which is treated as a limit, and under its limit_key.  It asks for them in one order, and waits in line for
-- one at a time.  While it waits for the last it keeps those of the quotas, so that it does not have to begin
-- again; nobody else's places are kept by that.
--
-- A limit that breaks (break_after) is one with other numbers for a while: no places, then one.  Nothing ends
-- that state but a run that succeeds, so nothing can be lost that should; see docs/adr/0037-breakers.md.

create or replace function pgrab_internal.limit_patterns(p_key text) returns text[]
language sql immutable
return array(select left(p_key, n) || '*' from generate_series(0, length(p_key)) n);
comment on function pgrab_internal.limit_patterns is 'All patterns that a key is under.';

create or replace function pgrab_internal.limit_is_batch(p_key text) returns boolean
language sql immutable
return p_key ~ '^batch:[0-9]+$';
comment on function pgrab_internal.limit_is_batch is
  'Is this the key of a batch (batch_limit())? It is made, and goes, with its batch.';

create or replace function pgrab_internal.limit_of(p_key text) returns setof pgrab_internal.limit
language sql stable
begin atomic
  select p_key, l.max_running, l.per_second, l.break_after, l.break_for, l.owner from pgrab.limit l
  where p_key not like 'quota:%'
    and (l.key = p_key or l.key = any (pgrab_internal.limit_patterns(p_key)))
  order by l.key = p_key desc, length(l.key) desc limit 1;
end;
comment on function pgrab_internal.limit_of is
  'The limit of a key: the one of that name, or what the longest pattern says; of those the caller sees.';

-- 3 us instead of 30 where the key has a row of its own.
create or replace function pgrab_internal.limit_get(p_key text) returns pgrab_internal.limit
language plpgsql stable as $$
declare
  l pgrab_internal.limit;
begin
  if p_key like 'quota:%' then
    select p_key, q.max_running, q.set_by into l.key, l.max_running, l.owner
    from pgrab_internal.quota_get(p_key) q where q.max_running is not null;
    return l;
  end if;
  select x.* into l from pgrab.limit x where x.key = p_key;
  if not found then
    select x.* into l from pgrab_internal.limit_of(p_key) x;
  end if;
  return l;
end $$;
comment on function pgrab_internal.limit_get is 'The limit, or quota, of a key. Null: it has none.';

-- 20 ms more than asked for, because the way from here to the node, where the run starts, does not always
-- take the same time.
create or replace function pgrab_internal.limit_span(
  l pgrab_internal.limit, out starts bigint, out within interval)
language sql immutable
begin atomic
  select greatest(1, floor(l.per_second))::bigint,
    greatest(1, floor(l.per_second)) / l.per_second * interval '1 s' + interval '20 ms';
end;
comment on function pgrab_internal.limit_span is 'per_second as a number of starts within a time.';

-- Without this, everything would wait for as long as the clock was set back.  Places are kept at most two
-- seconds ahead, see limit_room().
create or replace function pgrab_internal.limit_noted(p_at timestamptz) returns timestamptz
language sql
return case when p_at < clock_timestamp() + interval '5 s' then p_at end;
comment on function pgrab_internal.limit_noted is
  'When something started or may start. Null: that was noted before the clock stepped back.';

-- Two statements, so that the second sees what the previous holder of the lock has written.
create or replace function pgrab_internal.limit_lock(p_key text, p_skip boolean default false)
returns pgrab_internal.limit_use
language plpgsql as $$
declare
  u pgrab_internal.limit_use;
begin
  if p_skip then
    perform from pgrab.limit_use x where x.key = p_key and x.no = 0 for update skip locked;
  else
    perform from pgrab.limit_use x where x.key = p_key and x.no = 0 for update;
  end if;
  if found then
    select x.* into u from pgrab.limit_use x where x.key = p_key order by x.no desc limit 1;
  end if;
  return u;
end $$;
comment on function pgrab_internal.limit_lock is
  'Locks a key and returns how it is used. Null: there is no such key, or, with p_skip, it is locked.';

create or replace function pgrab_internal.limit_note(o pgrab_internal.limit_use, n pgrab_internal.limit_use)
returns void
language plpgsql as $$
begin
  if n is distinct from o then
    n.no := o.no + 1;
    insert into pgrab.limit_use select n.*;
    delete from pgrab.limit_use u where u.key = o.key and u.no = o.no and u.no > 0;
  end if;
end $$;
comment on function pgrab_internal.limit_note is
  'Writes down how a key is used now. The caller holds its lock.';

-- Not before, although a place may be free: it is broken.  A time further ahead than break_for was noted
-- before the clock stepped back, or break_for was longer then.
create or replace function pgrab_internal.limit_broken(l pgrab_internal.limit, u pgrab_internal.limit_use)
returns timestamptz
language sql stable
return case when u.failures >= l.break_after then case
  when u.broken_until <= clock_timestamp() + coalesce(l.break_for, '1 min') then u.broken_until
  else clock_timestamp() end end;
comment on function pgrab_internal.limit_broken is
  'From when on a limit that is broken may be tried. Null: it is not broken.';

create or replace function pgrab_internal.limit_most(l pgrab_internal.limit, u pgrab_internal.limit_use)
returns integer
language sql stable
begin atomic
  select case when b.until is null then l.max_running when b.until > clock_timestamp() then 0
    else least(l.max_running, 1) end
  from (select pgrab_internal.limit_broken(l, u) as until) b;
end;
comment on function pgrab_internal.limit_most is 'How many may run at once now. Null: any number.';

-- ------------------------------------------------------------------------------------------------ the line

create or replace function pgrab_internal.limit_band(p_priority smallint) returns interval
language sql immutable
return pgrab_internal.band(p_priority) * interval '15 minutes';
comment on function pgrab_internal.limit_band is 'How much waiting the priority of a task is worth.';

create or replace function pgrab_internal.limit_line(p_key text) returns boolean
language sql stable
return exists (select from pgrab.task t
  where t.line = p_key and t.due_at is null and not t.paused);
comment on function pgrab_internal.limit_line is 'Do tasks wait in line for a limit?';

-- Takes the first of each band, and of these the first.  Tasks that a user has locked are skipped.
create or replace function pgrab_internal.limit_first(p_key text, p_n bigint) returns bigint[]
language sql as $$
  select coalesce(array_agg(f.id order by f.at), '{}')
  from (
    select t.id, t.fire_at - pgrab_internal.limit_band(t.priority) as at
    from generate_series(1, 5) b(band) cross join lateral (
      select x.* from pgrab.task x
      where x.line = p_key and pgrab_internal.band(x.priority) = b.band and x.due_at is null
        and not x.paused
      order by x.fire_at limit p_n for update skip locked) t
    order by at limit p_n) f
$$;
comment on function pgrab_internal.limit_first is 'The first in line of a limit, locked.';

-- Places are kept at most two seconds ahead, and under per_second they are spread evenly.
create or replace function pgrab_internal.limit_room(
  l pgrab_internal.limit, u pgrab_internal.limit_use,
  out first timestamptz, out step interval, out room bigint)
language sql as $$
  select f.first, f.step, greatest(0, least(1000, pgrab_internal.limit_most(l, u) - u.taken,
    case when l.per_second is not null then
      floor(extract(epoch from f.now + interval '2 s' - f.first) / extract(epoch from f.step)) + 1
    end))::bigint
  from (
    select s.now, s.within / s.starts as step,
      greatest(s.now, pgrab_internal.limit_noted(u.planned_at) + s.within / s.starts, (
        select pgrab_internal.limit_noted(b.at) + s.within from pgrab.limit_start b
        where b.key = l.key and b.no = u.starts + 1 - s.starts)) as first
    from (
      select x.starts, x.within, clock_timestamp() as now from pgrab_internal.limit_span(l) x) s) f
$$;
comment on function pgrab_internal.limit_room is
  'How many in line can get a place, when the first of them may start, and how far apart.';

-- p_due: the times of as many as may go; '{}': all, now.  p_each: one by one, because together they were
-- refused (by a trigger of the user's).  What is refused keeps its turn, and a later one goes instead.
create or replace function pgrab_internal.wake(
  p_ids bigint[], p_due timestamptz[] default '{}', p_each boolean default false) returns bigint[]
language plpgsql as $$
declare
  v_went bigint[] := '{}';
  v_id bigint;
begin
  if not p_each then
    perform pgrab_internal.move(array_agg(pgrab_internal.move_to(
      t.id, t.version, 'wake', p_due_at => coalesce(w.due_at, clock_timestamp()))))
    from unnest(p_ids, p_due) w(id, due_at) join pgrab.task t on t.id = any (array[w.id]);
    return p_ids;
  end if;
  foreach v_id in array p_ids loop
    exit when p_due <> '{}' and cardinality(v_went) = cardinality(p_due);
    begin
      v_went := v_went || pgrab_internal.wake(array[v_id],
        array_remove(array[p_due[cardinality(v_went) + 1]], null));
    exception when others then
      if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
        raise;
      end if;
      raise warning 'task % waits in line and cannot be made due: %', v_id, sqlerrm;
    end;
  end loop;
  return v_went;
end $$;
comment on function pgrab_internal.wake is
  'Makes tasks due that waited in line, now or at these times. The caller has locked them. Returns those '
  'that went.';

-- A limit that was deleted and made again by somebody else is not for the tasks that named it before.
-- The rule of is_for(), asked of the limit's owner once.
create or replace function pgrab_internal.limit_strangers(l pgrab_internal.limit, p_ids bigint[])
returns bigint[]
language plpgsql as $$
begin
  if pgrab_internal.may_operate(l.owner) then
    return '{}';
  end if;
  return array(
    select t.id from unnest(p_ids) c(id) join pgrab.task t on t.id = any (array[c.id])
    where t.limit_key = l.key and t.owner <> l.owner);
end $$;
comment on function pgrab_internal.limit_strangers is
  'Those of these tasks that name a limit which is not for them, as limit_check() would say.';

-- p_each: one of them is refused, by a trigger of the user's.  A hundred of such are got over.
create or replace function pgrab_internal.limit_wake(
  l pgrab_internal.limit, u pgrab_internal.limit_use, p_each boolean default false)
returns pgrab_internal.limit_use
language plpgsql as $$
declare
  r constant record := pgrab_internal.limit_room(l, u);
  c_most constant bigint := r.room + case when p_each then 100 else 0 end;
  v_ids bigint[];
  v_free bigint[];
  v_times timestamptz[];
  v_new bigint;
begin
  if r.room = 0 then
    return u;
  end if;
  v_ids := pgrab_internal.limit_first(l.key, c_most);
  v_free := pgrab_internal.limit_strangers(l, v_ids);
  if v_free <> '{}' then
    -- They went into line before the limit, or they themselves, got another owner: a thousand are let go at
    -- once, so that those for whom the limit is do not wait behind them.
    perform pgrab_internal.wake(
      pgrab_internal.limit_strangers(l, pgrab_internal.limit_first(l.key, 1000)), '{}', p_each);
    v_ids := pgrab_internal.limit_first(l.key, c_most);
    v_free := pgrab_internal.limit_strangers(l, v_ids);
    v_ids := array(select i.id from unnest(v_ids) with ordinality i(id, n)
      where i.id <> all (v_free) order by i.n);
  end if;
  v_times := array(
    select case when l.per_second is null then r.first else r.first + (i.n - 1) * r.step end
    from generate_series(1, least(r.room, cardinality(v_ids))) i(n) order by i.n);
  if v_ids <> '{}' then
    v_ids := pgrab_internal.wake(v_ids, v_times, p_each);
  end if;
  with kept as (
    insert into pgrab.limit_place (task_id, key, at, started)
    select w.id, l.key, w.at, false from unnest(v_ids, v_times) w(id, at)
    where w.id is not null
    on conflict (task_id, key) do update
      set at = excluded.at, version = null, incarnation = null, started = false, over = false
    returning xmax = 0 as new)
  select count(*) into v_new from kept k where k.new;
  if v_ids <> '{}' then
    u.taken := u.taken + v_new;
    if l.per_second is not null then
      u.planned_at := v_times[cardinality(v_ids)];
    end if;
  end if;
  u.waits := cardinality(v_ids) = r.room or pgrab_internal.limit_line(l.key);
  return u;
end $$;
comment on function pgrab_internal.limit_wake is
  'Makes tasks due that waited in line and have a place now. The caller holds the lock, and writes down the '
  'result.';

-- At a start, which does not depend on it: limit_tick() gets over what is refused.
create or replace function pgrab_internal.limit_wake_if(l pgrab_internal.limit, u pgrab_internal.limit_use)
returns pgrab_internal.limit_use
language plpgsql as $$
begin
  return pgrab_internal.limit_wake(l, u);
exception when others then
  if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
    raise;
  end if;
  return u;
end $$;
comment on function pgrab_internal.limit_wake_if is 'limit_wake(), unless a task in line is refused.';

-- ----------------------------------------------------------------------------------------------- the start

-- The claimed and due tasks of a key, locked, so that a task that gets a place can be started; first those
-- for which a place is kept.  3 ms: a start is recorded a little before its time (LEAD_US).  fresh: how many
-- up to this row have no place yet.  `case`: tasks are found by id; PostgreSQL 18 would rather read all due
-- tasks.
create or replace function pgrab_internal.limit_asking(
  p_key text, p_ids bigint[], p_versions bigint[], p_incarnation bigint)
returns table (id bigint, version bigint, n bigint, kept boolean, placed boolean, fresh bigint)
language sql as $$
  select t.id, t.version, row_number() over line, t.kept, t.placed, sum((not t.placed)::integer) over line
  from (
    select x.id, x.version, x.due_at - pgrab_internal.limit_band(x.priority) as at,
      p.at is not null and not p.over and not p.started as kept, p.at is not null as placed
    from unnest(p_ids, p_versions) c(id, version)
      join pgrab.task x on x.id = any (array[c.id])
        and case when x.version = c.version and x.incarnation = p_incarnation and x.status = 'claimed'
          then x.due_at <= clock_timestamp() + interval '3 ms' end
      left join pgrab.limit_place p on p.task_id = any (array[x.id])
        and case when p.key = p_key then true end
    for update of x skip locked) t
  window line as (order by t.kept desc, t.at, t.id rows unbounded preceding)
$$;
comment on function pgrab_internal.limit_asking is
  'Claimed tasks that ask for a place, in the order in which they get one.';

-- at: when it may start.
create type pgrab_internal.limit_chosen as (
  id bigint, version bigint, n bigint, kept boolean, fresh bigint, fits boolean, at timestamptz);
comment on type pgrab_internal.limit_chosen is 'A task that asked for a place, and the answer.';

-- p_due: when a task that has a place kept, and was a moment too early, is due again.  Null: it waits in
-- line.
create or replace function pgrab_internal.limit_hand_back(p_key text, p_ids bigint[], p_due timestamptz[])
returns void
language plpgsql as $$
begin
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(t.id, t.version, 'line', p_due_at => c.due_at,
    p_line => case when c.due_at is null then p_key end)))
  from unnest(p_ids, p_due) c(id, due_at) join pgrab.task t on t.id = any (array[c.id]);
end $$;
comment on function pgrab_internal.limit_hand_back is
  'Hands back claimed tasks that got no place. The caller has locked them.';

-- Due tasks that would hear the same: in the lane of a task that went into line, from its shard on.  What has
-- a place kept for it is not among them, nor what needs one under another key as well, nor what comes in
-- turns: there nobody waits for a big key.  At most 256 rows are read.
create or replace function pgrab_internal.limit_behind(p_key text, p_id bigint)
returns table (id bigint, version bigint)
language plpgsql as $$
begin
  return query
  select t.id, t.version
  from (
    select pgrab_tool.lane_of(row(x.*)::pgrab_internal.task) as lane, pgrab.shard(x.id) as first
    from pgrab.task x where x.id = any (array[p_id]) and x.share_key is null) l
    cross join lateral generate_series(l.first, least(l.first + 31, 1023)) s(shard)
    cross join lateral (
      select x.* from pgrab.task x
      where pgrab_tool.lane_of(row(x.*)::pgrab_internal.task) = l.lane and pgrab.shard(x.id) = s.shard
        and x.due_at <= clock_timestamp()
      order by x.due_at limit 8) b
    join pgrab.task t on t.id = any (array[b.id])
      and case when t.version = b.version then t.status = 'scheduled' end
  where array(select pgrab_internal.limit_keys(b.limit_key, b.owner, b.share_key)) = array[p_key]
    and not exists (select from pgrab.limit_place p
      where p.task_id = any (array[b.id]) and case when p.key = p_key then true end)
  for update of t skip locked;
end $$;
comment on function pgrab_internal.limit_behind is
  'Due tasks that need a place under this key, in the lane of one that got none; locked.';

-- Without this a thousand tasks that come at once would have to be claimed first, a few at a time, as many as
-- there are workers, and whatever is due after them in their lane would wait for that.
create or replace function pgrab_internal.limit_queue(l pgrab_internal.limit, p_id bigint) returns void
language plpgsql as $$
declare
  v_ids bigint[];
  v_versions bigint[];
  v_free bigint[];
begin
  select array_agg(b.id), array_agg(b.version) into v_ids, v_versions
  from pgrab_internal.limit_behind(l.key, p_id) b;
  v_free := pgrab_internal.limit_strangers(l, v_ids);
  perform pgrab_internal.move(array_agg(pgrab_internal.move_to(b.id, b.version, 'queue', p_line => l.key)))
  from unnest(v_ids, v_versions) b(id, version) where b.id <> all (v_free);
end $$;
comment on function pgrab_internal.limit_queue is
  'Puts what is due behind a task that got no place into line with it. The caller holds the lock.';

create or replace function pgrab_internal.limit_take_key(
  l pgrab_internal.limit, u pgrab_internal.limit_use, c pgrab_internal.limit_chosen[], p_incarnation bigint)
returns pgrab_internal.limit_use
language plpgsql as $$
begin
  insert into pgrab.limit_place (task_id, key, version, incarnation, at, started)
  select x.id, l.key, x.version, p_incarnation, x.at, true from unnest(c) x where x.fits
  on conflict (task_id, key) do update
    set version = excluded.version, incarnation = excluded.incarnation, at = excluded.at, started = true,
      over = false;
  if l.per_second is not null then
    insert into pgrab.limit_start (key, no, at)
    select l.key, u.starts + x.n, x.at from unnest(c) x where x.fits;
    -- only the latest are kept, those that per_second still counts
    delete from pgrab.limit_start b using pgrab_internal.limit_span(l) s
    where b.key = l.key and b.no > u.starts - s.starts
      and b.no <= u.starts + (select count(*) from unnest(c) x where x.fits) - s.starts;
  end if;
  update pgrab.limit_place p set at = x.at
  from unnest(c) x
  where x.kept and not x.fits and p.task_id = any (array[x.id]) and case when p.key = l.key then true end;
  perform pgrab_internal.limit_hand_back(
    l.key, array_agg(x.id), array_agg(case when x.kept then x.at end))
  from unnest(c) x where not x.fits;
  select u.taken + coalesce(max(x.fresh) filter (where x.fits), 0),
    u.starts + case when l.per_second is null then 0 else count(*) filter (where x.fits) end,
    coalesce(max(x.at) filter (where x.fits and l.per_second is not null), u.started_at),
    u.waits or coalesce(bool_or(not x.fits and not x.kept), false)
  into u.taken, u.starts, u.started_at, u.waits
  from unnest(c) x;
  return u;
end $$;
comment on function pgrab_internal.limit_take_key is
  'Gives the places of a key to the chosen tasks, and hands back the others.';

create or replace function pgrab_internal.limit_only(p_ids bigint[], p_some bigint[], p_them boolean)
returns bigint[]
language sql immutable
begin atomic
  select array_agg(case when (i.id = any (p_some)) = p_them then i.id end order by i.n)
  from unnest(p_ids) with ordinality i(id, n);
end;
comment on function pgrab_internal.limit_only is
  'The ids with a null for each that is not one of some; or, when p_them is false, for each that is.';

-- The tasks that p_key is not for need no place.
create or replace function pgrab_internal.limit_take_from(
  p_key text, p_ids bigint[], p_versions bigint[], p_incarnation bigint)
returns bigint[]
language plpgsql as $$
declare
  l pgrab_internal.limit;
  u pgrab_internal.limit_use;
  o pgrab_internal.limit_use;
  c pgrab_internal.limit_chosen[];
  v_free bigint[];
  v_refused bigint;
begin
  begin
    o := pgrab_internal.limit_lock(p_key);
  exception when lock_not_available then
    -- Another session, a node's or a user's, has the key locked for longer than usual: these tasks are due
    -- again in a second, and those of other keys do not wait.
    perform pgrab_internal.limit_hand_back(
      p_key, array_agg(a.id), array_agg(clock_timestamp() + interval '1 s'))
    from pgrab_internal.limit_asking(p_key, p_ids, p_versions, p_incarnation) a;
    return '{}';
  end;
  l := pgrab_internal.limit_get(p_key);
  if l.key is null then
    -- the limit has been deleted
    return array(select a.id from pgrab_internal.limit_asking(p_key, p_ids, p_versions, p_incarnation) a);
  elsif o.key is null then
    -- the first of a pattern or a quota; or the limit was written without its trigger, as in a restored copy
    insert into pgrab.limit_use (key, no) values (p_key, 0) on conflict do nothing;
    o := pgrab_internal.limit_lock(p_key);
  end if;
  v_free := pgrab_internal.limit_strangers(l, p_ids);
  -- A newcomer gets no place before the tasks in line, or before the times that are kept for tasks that were
  -- in line; and nobody before one that was refused, although the clock goes on from one to the next: starts
  -- are numbered in this order.
  select array_agg(row(f.id, f.version, f.n, f.kept, f.fresh, f.fits, f.at)::pgrab_internal.limit_chosen
    order by f.n) into c
  from (
    select a.id, a.version, a.n, a.kept, a.fresh, w.at,
      bool_and(w.at <= clock_timestamp() + interval '3 ms' and (a.kept or not o.waits
        and coalesce(pgrab_internal.limit_noted(o.planned_at) < clock_timestamp(), true)
        and o.taken + a.fresh <= coalesce(m.most, o.taken + a.fresh))) over (order by a.n) as fits
    from pgrab_internal.limit_asking(
        l.key, pgrab_internal.limit_only(p_ids, v_free, false), p_versions, p_incarnation) a
      cross join pgrab_internal.limit_span(l) s
      cross join pgrab_internal.limit_most(l, o) m(most)
      left join pgrab.limit_start b on b.key = l.key and b.no = o.starts + a.n - s.starts
      cross join lateral (
        select greatest(clock_timestamp(), pgrab_internal.limit_noted(o.started_at),
          pgrab_internal.limit_noted(b.at) + s.within,
          case when a.n > s.starts then clock_timestamp() + s.within end) as at offset 0) w) f;
  u := pgrab_internal.limit_take_key(l, o, c, p_incarnation);
  select x.id into v_refused from unnest(c) x where not x.fits and not x.kept order by x.n limit 1;
  if found then
    perform pgrab_internal.limit_queue(l, v_refused);
  end if;
  if u.waits then
    u := pgrab_internal.limit_wake_if(l, u);
  end if;
  perform pgrab_internal.limit_note(o, u);
  return array(
    select x.id from unnest(c) x where x.fits
    union all
    select a.id from pgrab_internal.limit_asking(p_key, pgrab_internal.limit_only(
      p_ids, v_free, true), p_versions, p_incarnation) a where v_free <> '{}');
end $$;
comment on function pgrab_internal.limit_take_from is
  'Of claimed, due tasks those that get a place under one key; the others are handed back.';

-- Serves: limit_start.sql.
create or replace function pgrab_internal.limit_take(
  p_ids bigint[], p_versions bigint[], p_incarnation bigint)
returns setof bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_asks bigint[];
  v_keys text[];
  v_key text;
  v_some bigint[];
  v_lost bigint[];
  v_several boolean;
begin
  select array_agg(t.id), array_agg(k.key), count(*) > count(distinct t.id) into v_asks, v_keys, v_several
  from unnest(p_ids) c(id) join pgrab.task t on t.id = any (array[c.id])
    cross join lateral pgrab_internal.limit_keys(t.limit_key, t.owner, t.share_key) k(key);
  for v_key in select k from unnest(v_keys) k group by k order by k not like 'quota:%', k loop
    v_some := pgrab_internal.limit_only(
      p_ids, array(select a.id from unnest(v_asks, v_keys) a(id, key) where a.key = v_key), true);
    v_lost := array_remove(pgrab_internal.limit_only(v_some, pgrab_internal.limit_take_from(
      v_key, v_some, p_versions, p_incarnation), false), null);
    if v_several and v_lost <> '{}' then
      -- What is kept under a limit while a task waits for a quota, others could use; so could other tasks of
      -- that quota what is kept under it while the limit lets nothing run.
      v_some := pgrab_internal.limit_only(v_some, v_lost, true);
      update pgrab.limit_place p
      set started = false, version = null, incarnation = null, at = clock_timestamp()
      from unnest(v_some, p_versions) f(id, version)
      where p.task_id = any (array[f.id]) and p.version = f.version
        and case when p.incarnation = p_incarnation then not p.over end;
      if v_key like 'quota:%' or pgrab_internal.limit_shut(v_key) then
        perform pgrab_internal.limit_pass(v_some, v_key not like 'quota:%');
      end if;
    end if;
    p_ids := pgrab_internal.limit_only(p_ids, v_lost, false);
  end loop;
  return query select i from unnest(p_ids) i where i is not null;
end $$;
comment on function pgrab_internal.limit_take is
  'Of claimed, due tasks with a limit_key or a quota, those that may start now. The others are handed back '
  'and wait in line.';

-- ------------------------------------------------------------------------------------------------- the end

create or replace function pgrab_internal.limit_after(u pgrab_internal.limit_use) returns text
language sql immutable
return format('is broken after %s %s', u.failures,
  case u.failures when 1 then 'failure' else 'failures in a row' end);
comment on function pgrab_internal.limit_after is 'Why a limit is broken.';

-- p_failed: in the order in which the runs ended; null: that says nothing.
create or replace function pgrab_internal.limit_told(
  l pgrab_internal.limit, u pgrab_internal.limit_use, p_failed boolean[]) returns pgrab_internal.limit_use
language plpgsql as $$
declare
  c_was constant boolean := pgrab_internal.limit_broken(l, u) is not null;
  c_good constant integer := (
    select max(f.n) from unnest(p_failed) with ordinality f(failed, n) where not f.failed);
  c_bad constant integer := (
    select count(*) from unnest(p_failed) with ordinality f(failed, n)
    where f.failed and f.n > coalesce(c_good, 0));
  v_n bigint;
begin
  u.failures := case when l.break_after is null then 0
    else c_bad + case when c_good is null then u.failures else 0 end end;
  if c_bad > 0 and u.failures >= l.break_after then
    -- Places that were kept are no longer: the task that had one asks again, and waits in line.  (The
    -- condition begins with that of limit_place_loose_idx.)
    delete from pgrab.limit_place p where p.key = l.key and (p.over or not p.started) and not p.over;
    get diagnostics v_n = row_count;
    u.taken := greatest(0, u.taken - v_n);
    u.broken_until := clock_timestamp() + coalesce(l.break_for, '1 min');
  end if;
  if c_was <> (pgrab_internal.limit_broken(l, u) is not null) and exists (select from pgrab.alert) then
    insert into pgrab_internal.notice (event, facts)
    select e.event, pgrab_internal.facts(e.event, 'limit ' || l.key, 'limit-' || l.key,
      jsonb_build_object('name', l.key, 'owner', l.owner, 'failures', u.failures, 'text', case
        when c_was then format('limit %s is mended: a run has succeeded', l.key)
        else format('limit %s %s; the next run may try at %s', l.key, pgrab_internal.limit_after(u),
          pgrab_internal.cut(u.broken_until)) end))
    from (select case when c_was then 'mended' else 'broken' end as event) e;
    perform pg_notify('pgrab', 'alerts');
  end if;
  return u;
end $$;
comment on function pgrab_internal.limit_told is
  'Counts the failures in a row of a limit with break_after, and lets nothing start once it is broken. '
  'Those who are to be told that it has broken, or is mended, are.';

create or replace function pgrab_internal.limit_give_key(
  p_key text, p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_outcomes text[])
returns bigint
language plpgsql as $$
declare
  o constant pgrab_internal.limit_use := pgrab_internal.limit_lock(p_key);
  u pgrab_internal.limit_use := o;
  l pgrab_internal.limit;
  v_failed boolean[];
  v_freed bigint;
begin
  with gone as (
    delete from pgrab.limit_place p
    using unnest(p_ids, p_versions, p_incarnations, p_outcomes) with ordinality
      f(id, version, incarnation, outcome, n)
    where p.task_id = any (array[f.id]) and p.version = f.version
      and case when p.key = p_key and p.incarnation = f.incarnation then true end
    returning pgrab_internal.run_failed(f.outcome) as failed, f.n)
  select array_agg(g.failed order by g.n) into v_failed from gone g;
  v_freed := coalesce(cardinality(v_failed), 0);
  if o.key is not null then
    l := pgrab_internal.limit_get(p_key);
    u.taken := greatest(0, u.taken - v_freed);
    if num_nonnulls(l.break_after, nullif(u.failures, 0)) > 0 then
      u := pgrab_internal.limit_told(l, u, v_failed);
    end if;
    if u.waits and l.key is not null then
      u := pgrab_internal.limit_wake(l, u);
    end if;
    perform pgrab_internal.limit_note(o, u);
  end if;
  return v_freed;
end $$;
comment on function pgrab_internal.limit_give_key is
  'Frees the places of runs that have ended under one key, for the next in line. Returns how many.';

-- Places are found by the fence of the run: what became of its task does not matter.  The place of a run that
-- ends too late was freed when it was recovered, and another run's place has another fence.
create or replace function pgrab_internal.limit_give_back(
  p_ids bigint[], p_versions bigint[], p_incarnations bigint[], p_outcomes text[] default '{}')
returns bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_key text;
  v_freed bigint := 0;
begin
  for v_key in
    select p.key from unnest(p_ids, p_versions, p_incarnations) f(id, version, incarnation)
      join pgrab.limit_place p on p.task_id = any (array[f.id]) and p.version = f.version
        and case when p.incarnation = f.incarnation then not p.over end
    group by p.key order by p.key not like 'quota:%', p.key
  loop
    begin
      v_freed := v_freed + pgrab_internal.limit_give_key(
        v_key, p_ids, p_versions, p_incarnations, p_outcomes);
    exception when others then
      -- Somebody has locked the key, or a task in line is refused.  The end of these runs does not wait for
      -- that: their places are marked as free, and limit_tick() lets the next task go.
      if sqlstate <> '55P03' and not pgrab_internal.row_fault(sqlstate, sqlerrm) then
        raise;
      end if;
      update pgrab.limit_place p
      set over = true, failed = pgrab_internal.run_failed(f.outcome), at = clock_timestamp()
      from unnest(p_ids, p_versions, p_incarnations, p_outcomes) f(id, version, incarnation, outcome)
      where p.task_id = any (array[f.id]) and p.version = f.version
        and case when p.key = v_key and p.incarnation = f.incarnation then true end;
    end;
  end loop;
  return v_freed;
end $$;
comment on function pgrab_internal.limit_give_back is
  'Frees the places of runs that have ended, for the next in line. Returns how many.';

-- These are places of tasks that were deleted while they ran, so the incarnation no longer holds them.  While
-- a sql run of that incarnation is still going, they wait for the next round.
create or replace function pgrab_internal.limit_recover(p_incarnation bigint) returns bigint
language sql as $$
  select pgrab_internal.limit_give_back(
    array_agg(p.task_id), array_agg(p.version), array_agg(p.incarnation))
  from pgrab.limit_place p
  where p.incarnation = p_incarnation and not p.over
    and not exists (select from pgrab.task t where t.id = any (array[p.task_id]) and t.version = p.version
      and t.incarnation = p.incarnation)
    and not exists (select from pg_stat_activity a
      where a.datname = current_database() and a.application_name = 'pgrab sql ' || p_incarnation
        and exists (select from pgrab.registration n where a.usename = any (n.owners)))
  having count(*) > 0
$$;
comment on function pgrab_internal.limit_recover is
  'Frees the places of a dead incarnation, except those of tasks that it still holds.';
