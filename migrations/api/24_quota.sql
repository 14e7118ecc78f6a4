-- Quotas: what one owner, or the tasks of one share_key, may use up (pgrab.quota).
--
--   INSERT --- quotas_enter: is there room? --- yes: as ever
--                                  \____ no: refused, or held in line (scheduled, without due_at)
--   the clock --- quotas_tick: makes due the first in line for whom there is room
--   claim, start --- max_running: a limit like any other (24_limit.sql), whose key begins with quota:
--
-- Nothing is counted down when a task ends, and no INSERT waits for another.  How many tasks there are is
-- read from the indexes by lane and shard, about a thousand entries at most: beyond that number in so many
-- shards as have a thousand, which is an estimate.  How many were inserted within a minute is the sum of at
-- most a few hundred rows; under a large quota each of them stands for many.  What other transactions have
-- not committed is not seen, so together they may exceed a quota by what they insert.

create or replace function pgrab_internal.quota_key(p_owner text, p_share_key text) returns text
language sql stable parallel safe
return 'quota:' || array_to_json(array_remove(array[p_owner, p_share_key], null))::text;
comment on function pgrab_internal.quota_key is
  'What stands for a quota where a limit has its key, such as quota:["alice","customer 7"].';

create or replace function pgrab_internal.quota_held(p_owner text, p_share_key text) returns text
language sql stable parallel safe
return 'quota:held:' || substr(pgrab_internal.quota_key(p_owner, p_share_key), 7);
comment on function pgrab_internal.quota_held is
  'The line of those that a quota holds. In the one that is called quota_key() others wait to run.';

create or replace function pgrab_internal.quota_of_key(p_key text, out owner text, out share_key text)
language sql immutable parallel safe
begin atomic
  select j.a ->> 0, j.a ->> 1 from (select substr(p_key, position('[' in p_key))::jsonb as a) j;
end;
comment on function pgrab_internal.quota_of_key is
  'Whose tasks a key of quota_key() or quota_held() is about.';

create or replace function pgrab_internal.quota_of(p_owner text, p_share_key text)
returns setof pgrab_internal.quota
language sql stable
begin atomic
  select q.* from pgrab.quota q where q.owner = p_owner
  union all
  (select q.* from pgrab.quota q
  where p_share_key is not null
    and (q.share_key = p_share_key or q.share_key = any (pgrab_internal.limit_patterns(p_share_key)))
  order by q.share_key = p_share_key desc, length(q.share_key) desc limit 1);
end;
comment on function pgrab_internal.quota_of is
  'The quotas of a task: that of its owner, and that of its share_key.';

-- Not an expression that PostgreSQL inlines: a claim asks this in two places, and plans it in neither.
create or replace function pgrab_internal.quota_limits(p_owner text, p_share_key text) returns boolean
language sql stable
begin atomic
  select exists (
    select from pgrab_internal.quota_of(p_owner, p_share_key) q where q.max_running is not null);
end;
comment on function pgrab_internal.quota_limits is
  'Does a task need a place under a quota before it starts?';

create or replace function pgrab_internal.quota_get(p_key text) returns pgrab_internal.quota
language plpgsql stable as $$
declare
  k constant record := pgrab_internal.quota_of_key(p_key);
  q pgrab_internal.quota;
begin
  select x.* into q from pgrab_internal.quota_of(k.owner, k.share_key) x
  where (x.share_key is null) = (k.share_key is null);
  return q;
end $$;
comment on function pgrab_internal.quota_get is 'The quota of such a key. Null: it is gone.';

create or replace function pgrab_internal.limit_keys(p_limit_key text, p_owner text, p_share_key text)
returns setof text
language plpgsql stable as $$
begin
  return query select p_limit_key where p_limit_key is not null;
  return query select pgrab_internal.quota_key(
      p_owner, case when q.share_key is not null then p_share_key end)
    from pgrab_internal.quota_of(p_owner, p_share_key) q where q.max_running is not null;
end $$;
comment on function pgrab_internal.limit_keys is
  'Under which keys a task needs a place before it starts: that of its limit, and those of its quotas.';

-- ------------------------------------------------------------------------------------------------ counting

-- A lane is in task_due_idx and task_idle_idx, ordered by shard; what is due of a share_key, in
-- task_share_idx.
create or replace function pgrab_internal.quota_tasks(
  p_owner text, p_share_key text, p_due boolean, p_shards integer, p_most bigint)
returns bigint
language plpgsql set enable_seqscan = off set enable_bitmapscan = off set jit = off
  set plan_cache_mode = force_generic_plan as $$
declare
  c_lanes constant bytea[] := array(
    select distinct l.lane from pgrab.lane l where l.owner = p_owner and (p_share_key is null or l.shared));
begin
  if p_share_key is not null then
    return (
      select count(*) from (
        select from unnest(c_lanes) l(lane) cross join lateral (
          select from pgrab.task t
          where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane and t.share_key = p_share_key
            and pgrab.shard(t.id) < p_shards and t.due_at is not null limit p_most) d
        limit p_most) x);
  end if;
  return (
    select count(*) from (
      select from unnest(c_lanes) l(lane) cross join lateral (
        select from pgrab.task t
        where pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
          and pgrab.shard(t.id) < p_shards and t.due_at is not null limit p_most) d
      union all
      select from unnest(c_lanes) l(lane) cross join lateral (
        select from pgrab.task t
        where not p_due and pgrab_tool.lane_of(row(t.*)::pgrab_internal.task) = l.lane
          and pgrab.shard(t.id) < p_shards and t.due_at is null limit p_most) i
      limit p_most) x);
end $$;
comment on function pgrab_internal.quota_tasks is
  'How many tasks there are in the first p_shards shards; with p_due, and of a share_key, only those that '
  'are planned or running. It counts no further than to p_most.';

create or replace function pgrab_internal.quota_inserts(p_key text) returns bigint
language sql set enable_seqscan = off as $$
  select coalesce(sum(i.n), 0)::bigint from pgrab_internal.quota_insert i
  where i.key = p_key and i.at > clock_timestamp() - interval '1 minute'
    and i.at < clock_timestamp() + interval '5 s' -- others: before the clock stepped back
$$;
comment on function pgrab_internal.quota_inserts is 'How many were inserted within the last minute.';

-- Chance decides which INSERTs write a row: of a full quota there are about 400.
create or replace function pgrab_internal.quota_note(p_key text, p_most integer, p_n bigint) returns void
language plpgsql as $$
declare
  c_each constant bigint := greatest(1, p_most / 400);
begin
  if p_n > 0 and random() < p_n::float8 / c_each then
    insert into pgrab_internal.quota_insert (key, n) values (p_key, greatest(p_n, c_each));
    delete from pgrab_internal.quota_insert i where i.id in (
      select x.id from pgrab_internal.quota_insert x
      where x.key = p_key and x.at < clock_timestamp() - interval '1 minute'
      order by x.at limit 20 for update skip locked);
  end if;
end $$;
comment on function pgrab_internal.quota_note is
  'Writes down what is inserted under inserts_per_minute, and removes what is older.';

-- p_most: it counts no further.  p_part: it looks at so small a part of what it would count otherwise.
create or replace function pgrab_internal.quota_count(
  q pgrab_internal.quota, p_owner text, p_share_key text, p_most bigint, p_part integer default 1)
returns bigint
language plpgsql as $$
declare
  c_shards constant integer :=
    greatest(1, least(1024, ceil(1024000.0 / nullif(q.max_tasks, 0))) / p_part);
  c_share constant numeric := c_shards / 1024.0;
begin
  return round(pgrab_internal.quota_tasks(p_owner, p_share_key, q.when_full = 'hold', c_shards,
    ceil(p_most * c_share)::bigint + 1) / c_share);
end $$;
comment on function pgrab_internal.quota_count is
  'How many tasks count for max_tasks; of more than a thousand, an estimate.';

-- p_new: which are there already.  An eighth says that a large quota is less than half full: of those that
-- would fill it a hundred and more are in there.
create or replace function pgrab_internal.quota_over(
  q pgrab_internal.quota, p_owner text, p_share_key text, p_new bigint)
returns bigint
language plpgsql as $$
declare
  v_over bigint;
begin
  if q.max_tasks >= 1000 then
    v_over := pgrab_internal.quota_count(q, p_owner, p_share_key, q.max_tasks / 2, 8) - q.max_tasks;
  end if;
  if q.max_tasks is not null and coalesce(v_over >= -q.max_tasks / 2, true) then
    v_over := pgrab_internal.quota_count(q, p_owner, p_share_key, q.max_tasks + p_new) - q.max_tasks;
  end if;
  if q.inserts_per_minute is not null then
    v_over := greatest(v_over, p_new - q.inserts_per_minute
      + pgrab_internal.quota_inserts(pgrab_internal.quota_key(p_owner, p_share_key)));
  end if;
  return v_over;
end $$;
comment on function pgrab_internal.quota_over is
  'How many tasks are more than a quota permits. Below zero: how many more may come. Null: any number.';

-- -------------------------------------------------------------------------------------------- at the INSERT

create or replace function pgrab_internal.quota_refuse(
  q pgrab_internal.quota, p_owner text, p_share_key text, p_bytes bigint) returns void
language plpgsql as $$
declare
  c_of constant text := format('the quota of %s%s', p_owner, ' for share_key ' || quote_literal(p_share_key));
begin
  if p_bytes > q.max_bytes then
    raise exception using errcode = '54000', schema = 'pgrab', table = 'task',
      message = format('%s permits %s bytes for the command and args of a task, and these have %s', c_of,
        q.max_bytes, p_bytes),
      hint = 'Put large data in a table and pass its key.';
  end if;
  raise exception using errcode = '54000', schema = 'pgrab', table = 'task',
    message = format('%s is full: %s', c_of, concat_ws(', ', 'max_tasks ' || q.max_tasks,
      'inserts_per_minute ' || q.inserts_per_minute)),
    hint = 'Wait until tasks have ended, or a minute is over; pgrab.quotas shows how it is used. An operator '
      'can raise it, or let what is too much wait in line: update pgrab.quota set when_full = ''hold''.';
end $$;
comment on function pgrab_internal.quota_refuse is 'Refuses tasks that a quota does not permit.';

-- p_hold: what is too much waits, whatever the quota does with an INSERT.
create or replace function pgrab_internal.quota_admit(
  q pgrab_internal.quota, p_owner text, p_share_key text, p_ids bigint[], p_hold boolean) returns void
language plpgsql as $$
declare
  c_over constant bigint := pgrab_internal.quota_over(q, p_owner, p_share_key, cardinality(p_ids));
  c_key constant text := pgrab_internal.quota_held(p_owner, p_share_key);
  c_line constant boolean := p_hold and pgrab_internal.limit_line(c_key);
  v_n bigint := cardinality(p_ids);
  v_moves pgrab_internal.move[];
begin
  if p_hold and (c_over > 0 or c_line) then
    -- the last are held first, and none goes before those that are held already
    select array_agg(pgrab_internal.move_to(t.id, t.version, 'queue', p_line => c_key)) into v_moves
    from (
      select x.id, x.version from pgrab.task x
      where x.id = any (p_ids) and x.due_at is not null
      order by x.id desc limit case when not c_line then c_over end) t;
    if v_moves is not null then
      perform pgrab_internal.move(v_moves);
      perform pg_notify('pgrab', 'waits') where not c_line;
      v_n := v_n - cardinality(v_moves);
    end if;
  elsif c_over > 0 then
    perform pgrab_internal.quota_refuse(q, p_owner, p_share_key, null);
  end if;
  if q.inserts_per_minute is not null then
    perform pgrab_internal.quota_note(
      pgrab_internal.quota_key(p_owner, p_share_key), q.inserts_per_minute, v_n);
  end if;
end $$;
comment on function pgrab_internal.quota_admit is
  'Counts tasks that come under a quota; refuses or holds what is too much.';

-- What the quota of its owner holds comes under that of its share_key when it goes on.
create or replace function pgrab_internal.quota_enter(
  q pgrab_internal.quota, p_owner text, p_share_key text, p_ids bigint[], p_bytes bigint) returns void
language plpgsql as $$
declare
  v_ids bigint[] := p_ids;
begin
  if p_bytes > q.max_bytes then
    perform pgrab_internal.quota_refuse(q, p_owner, p_share_key, p_bytes);
  end if;
  if p_share_key is not null then
    v_ids := array(select t.id from pgrab.task t where t.id = any (p_ids)
      and t.line is distinct from pgrab_internal.quota_held(p_owner, null));
  end if;
  if v_ids <> '{}' then
    perform pgrab_internal.quota_admit(q, p_owner, p_share_key, v_ids, q.when_full = 'hold');
  end if;
end $$;
comment on function pgrab_internal.quota_enter is
  'Tasks of a quota have been inserted: refuses or holds what is too much. p_bytes: how long the longest is.';

create or replace function pgrab_internal.task_bytes(p_command text, p_args jsonb) returns bigint
language sql immutable
return octet_length(p_command)::bigint + octet_length(p_args::text);
comment on function pgrab_internal.task_bytes is 'What pgrab.quota.max_bytes is about.';

create or replace function pgrab_internal.quota_edited(t pgrab_internal.task) returns void
language plpgsql as $$
begin
  perform pgrab_internal.quota_refuse(q, t.owner, case when q.share_key is not null then t.share_key end,
    pgrab_internal.task_bytes(t.command, t.args))
  from pgrab_internal.quota_of(t.owner, t.share_key) q
  where pgrab_internal.task_bytes(t.command, t.args) > q.max_bytes;
end $$;
comment on function pgrab_internal.quota_edited is
  'Refuses an edit by which a task is longer than its quota permits.';

-- ------------------------------------------------------------------------------------------------ the clock

-- All go where no bound is left, or nothing is to be held any more.  (A share_key that refuses INSERTs holds
-- what the quota of its owner lets go.)
create or replace function pgrab_internal.quota_release_now(p_key text, p_each boolean) returns bigint
language plpgsql as $$
declare
  k constant record := pgrab_internal.quota_of_key(p_key);
  q constant pgrab_internal.quota := pgrab_internal.quota_get(p_key);
  c_over constant bigint := case when q.when_full = 'hold' or k.share_key is not null
    then pgrab_internal.quota_over(q, k.owner, k.share_key, 0) end;
  v_room bigint;
  v_times timestamptz[];
  v_ids bigint[];
begin
  v_room := least(500, greatest(0, - coalesce(c_over, -500)));
  v_ids := pgrab_internal.limit_first(p_key, v_room + case when p_each then 100 else 0 end);
  if v_ids <> '{}' then
    v_times := array(
      select greatest(clock_timestamp(), t.fire_at + pgrab_internal.jitter_of(t.id, t.jitter))
      from unnest(v_ids) with ordinality i(id, n) join pgrab.task t on t.id = any (array[i.id])
      order by i.n);
    if p_each then
      v_ids := array(
        select w from unnest(v_ids, v_times) i(id, due_at) cross join lateral unnest(
          pgrab_internal.wake(array[i.id], array[i.due_at], true)) w limit v_room);
    else
      perform pgrab_internal.wake(v_ids, v_times);
    end if;
    -- what the quota of its owner lets go may have to wait for that of its share_key
    perform pgrab_internal.quota_admit(q2, k.owner, s.share_key, s.ids, true)
    from (
        select t.share_key, array_agg(t.id) as ids
        from unnest(v_ids) i(id) join pgrab.task t on t.id = any (array[i.id])
        where t.share_key is not null and k.share_key is null group by 1) s
      cross join lateral pgrab_internal.quota_of(null, s.share_key) q2;
    perform pgrab_internal.quota_note(pgrab_internal.quota_key(k.owner, k.share_key), q.inserts_per_minute,
      cardinality(v_ids)) where q.inserts_per_minute is not null;
  end if;
  return cardinality(v_ids);
end $$;
comment on function pgrab_internal.quota_release_now is
  'Lets as many go, of those that a quota holds, as there is room for; each by itself, if asked. Returns how '
  'many.';

create or replace function pgrab_internal.quota_release(p_key text) returns bigint
language plpgsql as $$
begin
  return pgrab_internal.quota_release_now(p_key, false);
exception when others then
  if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
    raise;
  end if;
  return pgrab_internal.quota_release_now(p_key, true);
end $$;
comment on function pgrab_internal.quota_release is
  'quota_release_now(); when one is refused, by a trigger of the user''s, without that one.';

-- Serves: waits.sql.  In order, as far as there is time: then the rest comes a second later.
create or replace function pgrab_internal.quotas_tick(out looked bigint, out next_us bigint)
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '200 ms';
  v_key text;
  v_n bigint;
begin
  looked := 0;
  if not exists (select from pgrab.cluster c where c.quotas)
    or not exists (select from pgrab_internal.lines() k(key) where k.key like 'quota:held:%') then
    return;
  end if;
  next_us := 1000000;
  if pgrab_internal.duty_take('quotas', '0.8 s') then
    for v_key in select k.key from pgrab_internal.lines() k(key) where k.key like 'quota:held:%'
      order by random()
    loop
      begin
        loop
          v_n := pgrab_internal.quota_release(v_key);
          looked := looked + v_n;
          exit when v_n < 500 or clock_timestamp() > c_until;
        end loop;
      exception when others then
        if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
          raise;
        end if;
        raise warning 'what % holds cannot go: %', v_key, sqlerrm;
      end;
      exit when clock_timestamp() > c_until;
    end loop;
  end if;
end $$;
comment on function pgrab_internal.quotas_tick is
  'Makes due what quotas hold and have room for. Returns how many, and in how many microseconds it is time '
  'to look again. Null: nothing is held.';

-- ------------------------------------------------------------------------------------------------ for users

create or replace function pgrab_internal.quota_changed() returns trigger
language plpgsql as $$
declare
  q pgrab_internal.quota;
begin
  if tg_op <> 'DELETE' and not exists (
    select from pg_roles r where r.rolname = new.owner or new.owner is null) then
    raise exception using errcode = '42704', schema = 'pgrab', table = 'quota', column = 'owner',
      message = format('there is no role %s for a quota to be about', quote_literal(new.owner)),
      hint = 'owner is the role that inserts the tasks, as in pgrab.task.owner.';
  end if;
  if tg_op = 'DELETE' then
    q := old;
  else
    q := new;
  end if;
  insert into pgrab.event (what, role, task, owner, detail)
  values ('quota', pgrab_internal.caller(), coalesce(q.owner, 'share_key ' || q.share_key), q.owner,
    jsonb_build_object(lower(tg_op), to_jsonb(q)));
  update pgrab.cluster c set quotas = true where not c.quotas;
  return null;
end $$;
comment on function pgrab_internal.quota_changed is 'Records a change to a quota, and that there are some.';
create trigger quota_10_caller after insert or update or delete on pgrab.quota
  for each row when (not pgrab_internal.in_call()) execute function pgrab_tool.note_caller();
create trigger quota_10_changed after insert or update or delete on pgrab.quota
  for each row execute function pgrab_internal.quota_changed();

-- An owner's quota has one row, and one of a share_key a row for each key of each owner that uses it.
create or replace function pgrab_internal.quota_uses(p_id bigint) returns table (owner text, share_key text)
language plpgsql stable as $$
begin
  return query
  select q.owner, null::text from pgrab.quota q where q.id = p_id and q.owner is not null
  union
  select k.owner, k.share_key
  from (
      select u.key from pgrab.limit_use u where u.key like 'quota:%' and u.no = 0
      union select l.key from pgrab_internal.lines() l(key) where l.key like 'quota:%'
      union select i.key from pgrab_internal.quota_insert i) x
    cross join lateral pgrab_internal.quota_of_key(x.key) k
    cross join lateral pgrab_internal.quota_of(null, k.share_key) y
  where y.id = p_id;
end $$;
comment on function pgrab_internal.quota_uses is 'Who uses a quota.';

create or replace function pgrab_internal.quota_use(
  p_id bigint, p_owner text, p_share_key text,
  out tasks bigint, out running bigint, out inserted bigint, out lanes bigint, out held bigint,
  out in_line bigint)
language plpgsql as $$
declare
  c_key constant text := pgrab_internal.quota_key(p_owner, p_share_key);
  q pgrab_internal.quota;
begin
  select x.* into q from pgrab.quota x where x.id = p_id;
  if q.max_tasks is not null then
    tasks := pgrab_internal.quota_count(q, p_owner, p_share_key,
      least(q.max_tasks, 1000000000000) * 11 / 10 + 10);
  end if;
  if q.max_running is not null then
    running := (select count(*) from pgrab.limit_place p where p.key = c_key and p.started and not p.over);
  end if;
  if q.inserts_per_minute is not null then
    inserted := pgrab_internal.quota_inserts(c_key);
  end if;
  if q.max_lanes is not null then
    lanes := pgrab_internal.lanes_of(p_owner, q.max_lanes);
  end if;
  select count(*) filter (where x.line <> c_key), count(*) filter (where x.line = c_key) into held, in_line
  from (
    (select t.line from pgrab.task t
    where t.line = pgrab_internal.quota_held(p_owner, p_share_key) and t.due_at is null and not t.paused
    limit 10000)
    union all
    (select t.line from pgrab.task t where t.line = c_key and t.due_at is null and not t.paused
    limit 10000)) x;
end $$;
comment on function pgrab_internal.quota_use is 'How a quota is used.';

create or replace view pgrab.quotas as
select k.owner, coalesce(k.share_key, q.share_key) as share_key, q.max_tasks, u.tasks, q.max_running,
  u.running, q.inserts_per_minute, u.inserted, q.max_lanes, u.lanes, q.max_bytes, q.when_full, u.held,
  u.in_line
from pgrab.quota q left join lateral pgrab_internal.quota_uses(q.id) k on true
  left join lateral pgrab_internal.quota_use(q.id, k.owner, k.share_key) u on k.owner is not null;
comment on view pgrab.quotas is
  'The quotas and how they are used; those of a share_key for each owner and key that has been used lately.';
comment on column pgrab.quotas.owner is 'Whose tasks count. Null: nobody''s have yet.';
comment on column pgrab.quotas.share_key is 'Only those with this share_key. Null: all of the owner.';
comment on column pgrab.quotas.max_tasks is 'How many tasks there may be.';
comment on column pgrab.quotas.tasks is
  'How many there are, as an INSERT would count them: above a thousand an estimate, and not far beyond '
  'max_tasks.';
comment on column pgrab.quotas.max_running is 'How many may run at once.';
comment on column pgrab.quotas.running is 'How many are running.';
comment on column pgrab.quotas.inserts_per_minute is 'How many may be inserted within a minute.';
comment on column pgrab.quotas.inserted is 'How many were, within the last minute.';
comment on column pgrab.quotas.max_lanes is 'In how many lanes its tasks may stand.';
comment on column pgrab.quotas.lanes is 'In how many they do.';
comment on column pgrab.quotas.max_bytes is 'How long command and args of a task may be together.';
comment on column pgrab.quotas.when_full is 'Is what is too much refused, or held?';
comment on column pgrab.quotas.held is 'How many are held, up to 10000.';
comment on column pgrab.quotas.in_line is 'How many wait until fewer run, up to 10000.';
