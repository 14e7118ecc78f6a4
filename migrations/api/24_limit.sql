-- Limits: at most max_running of a key at once, at most per_second starts, over all nodes.
--
--   claimed --- limit_take: is there a place? --- yes: started
--                                    \____ no: stands in line (scheduled, without due_at)
--   finish, or the clock --- limit_wake: keeps a free place for the first in line, and makes it due
--
-- Whoever takes or keeps places of a key holds the lock on its row in pgrab.limit; tasks of other keys, and without one, never wait for it.
-- A place belongs to somebody as long as his task is held by a node, or is due with a place kept for it; other rows are leftovers, and go whenever the key is looked at.
-- So nothing has to be counted down after a crash.

-- A twentieth of a second more than asked for: between the place and the start of the run lies a way to the node, which is not always equally long.
create or replace function pgrab_internal.limit_span(l pgrab.limit, out starts integer, out within interval)
language sql immutable as $$
  select greatest(1, floor(l.per_second))::integer, greatest(1, floor(l.per_second)) / l.per_second * interval '1 s' + interval '50 ms'
$$;
comment on function pgrab_internal.limit_span(pgrab.limit) is 'Internal: per_second as "so many starts within so long".';

create or replace function pgrab_internal.limit_sweep(l pgrab.limit) returns void
language sql as $$
  delete from pgrab.limit_place p
  where p.key = l.key and case
    when p.over then l.per_second is null or p.at < clock_timestamp() - (pgrab_internal.limit_span(l)).within
    -- What runs keeps its place, whatever its limit_key has become since.
    else not exists (select from pgrab.task t where t.id = p.task_id
        and (p.started and t.status = 'running'
          or t.limit_key = p.key and (t.status in ('claimed', 'running') or t.status = 'scheduled' and t.due_at is not null and p.at > clock_timestamp() - interval '10 s'))) end
$$;
comment on function pgrab_internal.limit_sweep(pgrab.limit) is 'Internal: removes places that nobody has any more. The caller holds the lock on the limit.';

-- When may the next one start? Null: not before a place comes free.
create or replace function pgrab_internal.limit_next(l pgrab.limit, p_started_only boolean, p_but bigint default null) returns timestamptz
language sql as $$
  select case when not p_started_only and (select count(*) from pgrab.limit_place p where p.key = l.key and not p.over) >= l.max_running then null
    else greatest(clock_timestamp(), (
      select p.at + s.within from pgrab_internal.limit_span(l) s
        cross join lateral (select p.at from pgrab.limit_place p where p.key = l.key and (p.started or not p_started_only) and p.task_id is distinct from p_but order by p.at desc offset s.starts - 1 limit 1) p
      where l.per_second is not null)) end
$$;
comment on function pgrab_internal.limit_next(pgrab.limit, boolean, bigint) is 'Internal: the earliest time at which another task of the key may start; null while max_running are at work. p_started_only: counting only what has started, apart from one task.';

create or replace function pgrab_internal.limit_take(p_ids bigint[], p_versions bigint[], p_incarnation bigint) returns setof bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  l pgrab.limit;
  v_task record;
  v_key text;
  v_next timestamptz;
  v_line boolean;
begin
  for v_key in
    select distinct t.limit_key from unnest((select p_ids)) c(id) join pgrab.task t on t.id = any (array[c.id]) where t.limit_key is not null order by 1
  loop
    begin
      select * into l from pgrab.limit x where x.key = v_key for update;
    exception when lock_not_available then
      -- A person has it: its tasks come again in a second, and those of other keys do not wait.
      update pgrab.task x
      set status = 'scheduled', due_at = clock_timestamp() + interval '1 s', version = x.version + 1, node_id = null, incarnation = null, claimed_at = null
      from unnest((select p_ids), (select p_versions)) c(id, version)
      where x.id = any (array[c.id]) and x.version = c.version and x.incarnation = p_incarnation and x.status = 'claimed' and x.limit_key = v_key;
      continue;
    end;
    if found then
      perform pgrab_internal.limit_sweep(l);
      v_line := exists (select from pgrab.task x where x.limit_key = v_key and x.due_at is null and x.status = 'scheduled' and not x.paused);
    end if;
    -- 3 ms: a start is put on record a little before its time (LEAD_US).
    for v_task in
      select x.id, p.at as kept from unnest((select p_ids), (select p_versions)) c(id, version)
      join pgrab.task x on x.id = any (array[c.id]) and x.version = c.version and x.incarnation = p_incarnation and x.status = 'claimed' and x.due_at <= clock_timestamp() + interval '3 ms' and x.limit_key = v_key
      left join pgrab.limit_place p on p.task_id = any (array[x.id]) and p.key = x.limit_key and not p.over
      order by p.at is null, x.priority desc, x.due_at
    loop
      if l.key is null then
        return next v_task.id; -- no such limit (any more)
        continue;
      end if;
      v_next := pgrab_internal.limit_next(l, v_task.kept is not null, case when v_task.kept is not null then v_task.id end);
      if v_next <= clock_timestamp() + interval '3 ms' and (v_task.kept is not null or not v_line) then
        if v_task.kept is null then
          insert into pgrab.limit_place (key, task_id, at, started) values (v_key, v_task.id, greatest(clock_timestamp(), v_next), true);
        else
          update pgrab.limit_place p set at = greatest(clock_timestamp(), v_next), started = true where p.task_id = v_task.id and p.key = v_key and not p.over;
        end if;
        return next v_task.id;
      else
        -- With a place kept: a moment too early. Without: into the line.
        update pgrab.limit_place p set at = v_next where p.task_id = v_task.id and p.key = v_key and not p.over;
        update pgrab.task x
        set status = 'scheduled', due_at = case when v_task.kept is not null then v_next end, version = x.version + 1, node_id = null, incarnation = null, claimed_at = null
        where x.id = v_task.id;
        v_line := true;
      end if;
    end loop;
    if l.key is not null then
      perform pgrab_internal.limit_wake(l);
    end if;
  end loop;
end $$;
comment on function pgrab_internal.limit_take(bigint[], bigint[], bigint) is 'Internal: of claimed, due tasks with a limit_key, those that may start now. The others are handed back and stand in line.';

-- Who has waited longest, priority counted as in a look: a lane for each.
create or replace function pgrab_internal.limit_first(p_key text) returns bigint
language sql as $$
  with recursive lane(priority) as (
    (select t.priority from pgrab.task t where t.limit_key = p_key and t.due_at is null order by t.priority limit 1)
    union all
    select (select t.priority from pgrab.task t where t.limit_key = p_key and t.due_at is null and t.priority > l.priority order by t.priority limit 1) from lane l where l.priority is not null)
  select f.id
  from lane l cross join lateral (
    select t.id, t.fire_at, t.priority from pgrab.task t
    where t.limit_key = p_key and t.due_at is null and t.priority = l.priority and t.status = 'scheduled' and not t.paused
    order by t.fire_at limit 1 for update skip locked) f
  order by f.fire_at - f.priority * interval '10 s' limit 1
$$;
comment on function pgrab_internal.limit_first(text) is 'Internal: the first in line of a limit, locked.';

-- Keeps free places for the first in line and makes them due, at most two seconds ahead. The caller holds the lock on the limit.
create or replace function pgrab_internal.limit_wake(l pgrab.limit) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_id bigint;
  v_next timestamptz;
  v_shard smallint;
  v_shards smallint[] := '{}';
begin
  loop
    v_next := pgrab_internal.limit_next(l, false);
    exit when v_next is null or v_next > clock_timestamp() + interval '2 s';
    v_id := pgrab_internal.limit_first(l.key);
    exit when v_id is null;
    insert into pgrab.limit_place (key, task_id, at, started) values (l.key, v_id, v_next, false);
    update pgrab.task t set due_at = v_next, version = t.version + 1 where t.id = v_id returning t.shard into v_shard;
    v_shards := v_shards || v_shard;
  end loop;
  if v_shards <> '{}' then
    perform pgrab_internal.ring(array(select distinct unnest(v_shards)));
  end if;
end $$;
comment on function pgrab_internal.limit_wake(pgrab.limit) is 'Internal: makes those due who stand in line and have a place now.';

-- After runs have ended, in their transaction.
create or replace function pgrab_internal.limit_give_back(p_ids bigint[]) returns void
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  v_ended bigint[];
  v_key text;
  l pgrab.limit;
begin
  -- A finish that came too late has ended nothing: its task runs elsewhere.
  select array_agg(i.id) into v_ended from unnest((select p_ids)) i(id) where not exists (select from pgrab.task t where t.id = any (array[i.id]) and t.status = 'running');
  for v_key in select distinct p.key from unnest((select v_ended)) i(id) join pgrab.limit_place p on p.task_id = any (array[i.id]) and p.started and not p.over order by 1 loop
    begin
      select * into l from pgrab.limit x where x.key = v_key for update;
    exception when lock_not_available then
      -- A person has it. The place is given back all the same, and limit_tick() lets the next go.
      update pgrab.limit_place p set over = true where p.task_id = any (v_ended) and p.key = v_key and p.started;
      continue;
    end;
    update pgrab.limit_place p set over = true where p.task_id = any (v_ended) and p.key = v_key and p.started;
    if l.key is not null then
      perform pgrab_internal.limit_sweep(l);
      perform pgrab_internal.limit_wake(l);
    else
      delete from pgrab.limit_place p where p.key = v_key;
    end if;
  end loop;
end $$;
comment on function pgrab_internal.limit_give_back(bigint[]) is 'Internal: frees the places of runs that have ended, for the next in line.';

-- Every second, from every node: per_second goes by the clock, and a wake-up may have been lost with whoever owed it.
create or replace function pgrab_internal.limit_tick() returns bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  l pgrab.limit;
  v_n bigint := 0;
begin
  for l in select x.* from pgrab.limit x where exists (select from pgrab.task t where t.limit_key = x.key and t.due_at is null) order by x.key for update skip locked loop
    perform pgrab_internal.limit_sweep(l);
    perform pgrab_internal.limit_wake(l);
    v_n := v_n + 1;
  end loop;
  return v_n;
end $$;
comment on function pgrab_internal.limit_tick() is 'Internal: the nodes'' look at those who stand in line.';

-- A limit that was raised or removed lets go at once.
create or replace function pgrab_internal.limit_changed() returns trigger
language plpgsql as $$
begin
  if tg_op = 'DELETE' or new.key <> old.key then
    delete from pgrab.limit_place p where p.key = old.key;
    update pgrab.task t set due_at = clock_timestamp(), version = t.version + 1 where t.limit_key = old.key and t.due_at is null and t.status = 'scheduled' and not t.paused;
    perform pgrab_internal.ring('{}');
  end if;
  if tg_op = 'UPDATE' then
    perform pgrab_internal.limit_sweep(new);
    perform pgrab_internal.limit_wake(new);
  end if;
  return null;
end $$;
comment on function pgrab_internal.limit_changed() is 'Internal: those in line need not wait for the next finish.';
create trigger limit_10_changed after update or delete on pgrab.limit for each row execute function pgrab_internal.limit_changed();

create or replace view pgrab.limits as
select l.key, l.max_running, l.per_second, p.running, p.started_1s, w.waiting, w.longest
from pgrab.limit l
cross join lateral (select count(*) filter (where p.started and not p.over) as running, count(*) filter (where p.started and p.at > statement_timestamp() - interval '1 s') as started_1s
  from pgrab.limit_place p where p.key = l.key) p
cross join lateral (select count(*) as waiting, date_trunc('second', statement_timestamp() - min(t.fire_at)) as longest
  from pgrab.task t where t.limit_key = l.key and t.due_at is null and t.status = 'scheduled' and not t.paused) w;
comment on view pgrab.limits is 'The limits and how they are used.';
comment on column pgrab.limits.key is 'The word for pgrab.task.limit_key.';
comment on column pgrab.limits.max_running is 'At most so many run at once.';
comment on column pgrab.limits.per_second is 'At most so many start per second.';
comment on column pgrab.limits.running is 'So many run.';
comment on column pgrab.limits.started_1s is 'So many were started within the last second.';
comment on column pgrab.limits.waiting is 'So many stand in line.';
comment on column pgrab.limits.longest is 'How long ago the first of them was planned to run.';
