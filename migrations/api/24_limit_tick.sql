-- Limits, second part: what happens every second (per_second needs it), repairs, and views.  See
-- 24_limit.sql.

-- Places that no run will use: kept for a task that did not come (edited, paused, deleted), or that waits in
-- line for another key that lets nothing run; or given back while the key was locked.  One that is kept for
-- long after now was kept before the clock stepped back.
create or replace function pgrab_internal.limit_reap(p_key text) returns boolean[]
language plpgsql as $$
declare
  v_failed boolean[];
begin
  with gone as (
    delete from pgrab.limit_place p
    where p.key = p_key and (p.over or not p.started) and (p.over
      or p.at > clock_timestamp() + interval '1 minute'
      or p.at < clock_timestamp() - interval '10 s' and not exists (
        select from pgrab.task t
        where t.id = any (array[p.task_id]) and t.status in ('scheduled', 'claimed')
          and (t.limit_key = p.key or p.key like 'quota:%')
          and (t.due_at < clock_timestamp() + interval '10 s'
            or t.line <> p.key and not pgrab_internal.limit_shut(t.line))))
    returning p.failed, p.at)
  select array_agg(g.failed order by g.at) into v_failed from gone g;
  return coalesce(v_failed, '{}');
end $$;
comment on function pgrab_internal.limit_reap is
  'Removes places that no run has or will take. Returns how the runs of those ended.';

create or replace function pgrab_internal.limit_let_go(p_key text) returns void
language sql as $$
  select pgrab_internal.wake(array(
    select t.id from pgrab.task t
    where t.line = p_key and t.due_at is null and not t.paused
    order by t.id for update))
$$;
comment on function pgrab_internal.limit_let_go is 'Makes due all tasks that wait in line for a limit.';

create or replace function pgrab_internal.limit_tick_now(p_key text, p_each boolean) returns void
language plpgsql as $$
declare
  l constant pgrab_internal.limit := pgrab_internal.limit_get(p_key);
  o pgrab_internal.limit_use := pgrab_internal.limit_lock(p_key, true);
  u pgrab_internal.limit_use := o;
  v_failed boolean[];
begin
  if o.key is null then
    return;
  elsif l.key is null then
    perform pgrab_internal.wake(pgrab_internal.limit_first(p_key, 1000), '{}', p_each);
    u.waits := pgrab_internal.limit_line(p_key);
  else
    v_failed := pgrab_internal.limit_reap(p_key);
    u.taken := greatest(0, u.taken - cardinality(v_failed));
    u := pgrab_internal.limit_wake(l, pgrab_internal.limit_told(l, u, v_failed), p_each);
  end if;
  perform pgrab_internal.limit_note(o, u);
end $$;
comment on function pgrab_internal.limit_tick_now is
  'Makes due the tasks that wait in line for a key and may start; each by itself, if asked.';

create or replace function pgrab_internal.limit_tick_key(p_key text) returns void
language plpgsql as $$
begin
  perform pgrab_internal.limit_tick_now(p_key, false);
exception when others then
  if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
    raise;
  end if;
  perform pgrab_internal.limit_tick_now(p_key, true);
end $$;
comment on function pgrab_internal.limit_tick_key is
  'Makes due the tasks that wait in line for a key and may start.';

-- Their places go to the next in line, at once.  p_quotas: only those under quotas, or only the others.
create or replace function pgrab_internal.limit_pass(p_ids bigint[], p_quotas boolean default null)
returns void
language plpgsql as $$
declare
  v_keys text[];
begin
  if pg_relation_size('pgrab.limit_place') > 0 then
    with passed as (
      update pgrab.limit_place p set over = true
      where p.task_id = any (p_ids) and not p.started and not p.over
        and coalesce((p.key like 'quota:%') = p_quotas, true)
      returning p.key)
    select array_agg(distinct p.key) into v_keys from passed p;
    perform pgrab_internal.limit_tick_key(k) from unnest(v_keys) k order by k;
  end if;
end $$;
comment on function pgrab_internal.limit_pass is
  'Tasks for which places are kept, and which do not come: a blackout holds them, or they wait for another.';

create or replace function pgrab_internal.limit_latest(p_key text) returns pgrab_internal.limit_use
language sql stable
begin atomic
  select row(u.*)::pgrab_internal.limit_use from pgrab.limit_use u
  where u.key = p_key order by u.no desc limit 1;
end;
comment on function pgrab_internal.limit_latest is 'How a key is used.';

create or replace function pgrab_internal.limit_shut(p_key text) returns boolean
language plpgsql stable as $$
begin
  return coalesce(pgrab_internal.limit_most(
    pgrab_internal.limit_get(p_key), pgrab_internal.limit_latest(p_key)) = 0, false);
end $$;
comment on function pgrab_internal.limit_shut is
  'Does a limit let nothing run now, because it is broken or max_running is 0?';

create or replace function pgrab_internal.limit_audit() returns void
language plpgsql as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '100 ms';
  l pgrab_internal.limit;
  o pgrab_internal.limit_use;
  u pgrab_internal.limit_use;
  v_key text;
begin
  for v_key in select x.key from pgrab.limit_use x where x.no = 0 order by random() loop
    exit when clock_timestamp() > c_until;
    o := pgrab_internal.limit_lock(v_key, true);
    continue when o.key is null;
    l := pgrab_internal.limit_get(v_key);
    -- A run has ended without giving back its place when its task has a new version or incarnation.  There
    -- should be none.
    delete from pgrab.limit_place p using pgrab.task t
    where p.key = o.key and p.started and t.id = p.task_id
      and (t.version, t.incarnation) is distinct from (p.version, p.incarnation);
    u := pgrab_internal.limit_told(l, o, pgrab_internal.limit_reap(o.key));
    u.taken := (select count(*) from pgrab.limit_place p where p.key = o.key);
    perform pgrab_internal.limit_note(o, u);
    delete from pgrab.limit_start b
    where b.key = o.key and b.no <= o.starts - coalesce((
      select s.starts from pgrab_internal.limit_span(l) s where l.per_second is not null), 0);
    delete from pgrab.limit_use x
    where x.key = o.key and u.taken = 0 and not u.waits and pgrab_internal.limit_broken(l, u) is null
      and not exists (select from pgrab.limit y where y.key = o.key);
  end loop;
end $$;
comment on function pgrab_internal.limit_audit is
  'Recounts the places of all limits, and removes what a deleted limit or an idle key of a pattern leaves '
  'behind; of those that chance picks, when there is no time for all.';

-- From key to key in task_line_idx: thousands of keys of a pattern cost nothing while nobody waits.
create or replace function pgrab_internal.lines(p_after text default '') returns setof text
language sql stable
begin atomic
  with recursive k(key) as (
    select p_after
    union all
    select (select t.line from pgrab.task t
      where t.due_at is null and t.line is not null and not t.paused and t.line > k.key
      order by t.line limit 1)
    from k where k.key is not null)
  select k.key from k where k.key <> p_after;
end;
comment on function pgrab_internal.lines is
  'The limits and quotas for which tasks wait in line, in order, from the one behind p_after on.';

-- Not asked of pgrab.limit: a task may have gone into line while its limit was deleted, and must be let go.
create or replace function pgrab_internal.limit_lines(p_after text default '') returns setof text
language sql stable
begin atomic
  select k.key from pgrab_internal.lines(p_after) k(key)
  where k.key not like 'quota:held:%'
    and (select u.waits from pgrab.limit_use u where u.key = k.key order by u.no desc limit 1);
end;
comment on function pgrab_internal.limit_lines is 'The keys for which tasks wait in line for a place.';

-- Serves: duties.sql.
create or replace function pgrab_internal.limit_waits() returns boolean
language sql set enable_seqscan = off as $$ select exists (select from pgrab_internal.limit_lines()) $$;
comment on function pgrab_internal.limit_waits is 'Do tasks wait in line for any limit?';

-- Every second while tasks wait, on one node: per_second depends on the clock, a limit may have been raised,
-- or one that is broken may be tried, and a node may have died before it woke the next in line.  When there
-- is no time for all keys, the next tick goes on behind the last; a finish wakes the next in line of its key
-- anyway.
create or replace function pgrab_internal.limit_tick() returns bigint
language plpgsql set enable_seqscan = off set jit = off set plan_cache_mode = force_generic_plan as $$
declare
  c_until constant timestamptz := clock_timestamp() + interval '200 ms';
  v_from text;
  v_last text;
  v_key text;
  v_n bigint := 0;
begin
  if exists (select from pgrab.limit_use) and pgrab_internal.duty_take('limits', '0.8 s') then
    v_from := coalesce((select d.about from pgrab.duty d where d.duty = 'limits'), '');
    for v_key in
      select k.key from pgrab_internal.limit_lines(v_from) k(key)
      union all
      select k.key from pgrab_internal.limit_lines() k(key) where v_from <> '' and k.key <= v_from
    loop
      perform pgrab_internal.limit_tick_key(v_key);
      v_n := v_n + 1;
      v_last := case when clock_timestamp() > c_until then v_key end;
      exit when v_last is not null;
    end loop;
    update pgrab.duty d set about = v_last where d.duty = 'limits' and d.about is distinct from v_last;
    if pgrab_internal.duty_take('limit_audit', '1 min') then
      perform pgrab_internal.limit_audit();
    end if;
  end if;
  return v_n;
end $$;
comment on function pgrab_internal.limit_tick is
  'Makes due the tasks that wait in line for a limit and may start.';

-- ----------------------------------------------------------------------------------------------- for users

-- A raised limit takes effect with the next tick: here its lock would be held for as long as the user's
-- transaction is open.
create or replace function pgrab_internal.limit_changed() returns trigger
language plpgsql as $$
begin
  -- A name says more than a pattern: so one role could take keys from under the pattern of another, whose
  -- tasks would then be refused, or not be limited any more; and a pattern could keep all names from others.
  -- A batch has a key of its own.
  if tg_op <> 'DELETE' and not pgrab_internal.limit_is_batch(new.key)
    and not pgrab_internal.may_operate(new.owner)
    and exists (
      select from unnest(pgrab_internal.limit_patterns(new.key)) p
      where p = new.key or exists (select from pgrab.limit x where x.key = p)) then
    raise exception using errcode = '42501', schema = 'pgrab', table = 'limit', column = 'key',
      message = format('limit key %s is for operators', quote_literal(left(new.key, 200))),
      hint = 'It is a pattern, or under one. Choose another key, or ask an operator to make this limit.';
  end if;
  if tg_op <> 'DELETE' and new.key not like '%*' then
    insert into pgrab.limit_use (key, no) values (new.key, 0) on conflict do nothing;
  end if;
  if tg_op = 'DELETE' or tg_op = 'UPDATE' and new.key <> old.key then
    perform pgrab_internal.limit_let_go(old.key);
  end if;
  insert into pgrab.event (what, role, task, owner, detail)
  values ('limit', pgrab_internal.caller(), coalesce(new.key, old.key), coalesce(new.owner, old.owner),
    jsonb_build_object(lower(tg_op), coalesce(to_jsonb(new), to_jsonb(old))));
  return null;
end $$;
comment on function pgrab_internal.limit_changed is
  'Records a change to a limit, and makes the tasks that waited for a deleted one due. With separate roles: '
  'only operators make patterns, and limits of keys that are under one.';

-- A session that has the key of a batch to come in an open transaction would hold up its INSERT.
create or replace function pgrab_internal.limit_reserve() returns trigger
language plpgsql as $$
begin
  if not exists (
    select from pgrab.task t
    where t.id = substring(new.key from '^batch:([0-9]{1,18})$')::bigint and t.kind = 'batch'
      and t.args ->> 'max_running' is not null) then
    raise exception using errcode = '23514', schema = 'pgrab', table = 'limit', column = 'key',
      message = format('limit key %s is for a batch with max_running', quote_literal(new.key)),
      hint = 'Choose another key. The limit of a batch is made when that is inserted.';
  end if;
  return new;
end $$;
comment on function pgrab_internal.limit_reserve is 'Refuses a key that a batch would have.';
create trigger limit_10_reserve before insert or update of key on pgrab.limit
  for each row when (pgrab_internal.limit_is_batch(new.key)) execute function pgrab_internal.limit_reserve();

create trigger limit_10_caller after insert or update or delete on pgrab.limit
  for each row when (not pgrab_internal.in_call()) execute function pgrab_tool.note_caller();
create trigger limit_10_changed after insert or update or delete on pgrab.limit
  for each row execute function pgrab_internal.limit_changed();

create or replace view pgrab.limits as
select l.key, l.max_running, l.per_second, u.taken - p.loose as running, s.started_1s, w.waiting, w.longest,
  case when l.break_after is not null then u.failures end as failures,
  date_trunc('second', b.until) as broken_until
from (select x.key from pgrab.limit x union select x.key from pgrab.limit_use x where x.no = 0) k
cross join lateral pgrab_internal.limit_of(k.key) l
left join lateral pgrab_internal.limit_latest(l.key) u on true
cross join lateral pgrab_internal.limit_broken(l, u) b(until)
cross join lateral (
  select count(*) as loose from pgrab.limit_place p where p.key = l.key and (p.over or not p.started)) p
cross join lateral (
  select case when l.per_second is not null then count(*) end as started_1s from pgrab.limit_start b
  where b.key = l.key and b.at > statement_timestamp() - interval '1 s') s
cross join lateral (
  select count(*) as waiting,
    date_trunc('second', statement_timestamp() - min(greatest(t.fire_at, t.created_at))) as longest
  from pgrab.task t
  where t.line = l.key and t.due_at is null and not t.paused) w;
comment on view pgrab.limits is
  'The limits and how they are used: patterns, and each key that has been used.';
comment on column pgrab.limits.key is 'The word for pgrab.task.limit_key; with * at its end, a pattern.';
comment on column pgrab.limits.max_running is 'How many may run at once.';
comment on column pgrab.limits.per_second is 'How many may start per second.';
comment on column pgrab.limits.running is 'How many are running.';
comment on column pgrab.limits.started_1s is
  'How many were started within the last second. Null: per_second is not set.';
comment on column pgrab.limits.waiting is 'How many wait in line.';
comment on column pgrab.limits.longest is 'How long the first of them has waited since its planned time.';
comment on column pgrab.limits.failures is
  'How many runs in a row have failed. Null: break_after is not set.';
comment on column pgrab.limits.broken_until is
  'It is broken: nothing starts before then, and after that one run at a time. Null: it is not.';

create or replace function pgrab_tool.break_rule(p_key text) returns text
language sql stable
begin atomic
  select format('after %s failures in a row, for %s', l.break_after, coalesce(l.break_for, '1 min'))
  from pgrab_internal.limit_of(p_key) l where l.break_after is not null;
end;
comment on function pgrab_tool.break_rule is 'When a limit breaks, and for how long, for people.';

create or replace function pgrab_tool.broken_until(p_key text) returns timestamptz
language sql stable
begin atomic
  select b.until
  from pgrab_internal.limit_of(p_key) l cross join lateral pgrab_internal.limit_latest(p_key) u
    cross join lateral pgrab_internal.limit_broken(l, u) b(until);
end;
comment on function pgrab_tool.broken_until is
  'Until when nothing starts under a limit, because it is broken. Null: it is not.';

create or replace function pgrab_tool.limits_broken(p_most integer)
returns table (key text, until timestamptz, failures integer, waits boolean)
language sql stable
begin atomic
  select k.key, date_trunc('second', b.until), u.failures, u.waits
  from (select distinct x.key from pgrab.limit_use x where x.broken_until is not null limit 1000) k
    cross join lateral pgrab_internal.limit_latest(k.key) u
    cross join lateral pgrab_tool.broken_until(k.key) b(until)
  where b.until is not null order by b.until desc, k.key limit p_most;
end;
comment on function pgrab_tool.limits_broken is
  'Limits that are broken: when a run may try again, how many failed in a row, and whether tasks wait.';

create or replace function pgrab_tool.limit_users(p_most integer)
returns table (key text, place text, task_id bigint, name text, node text, since timestamptz,
  ends_by timestamptz)
language sql stable
begin atomic
  (select p.key, case when p.started then 'runs' else 'about to start' end, p.task_id,
    p.name, n.name, date_trunc('second', p.at), date_trunc('second', p.ends_by)
  from (
    select x.*, coalesce(t.name, t.key) as name, t.node_id,
      case when x.started then x.at + t.timeout end as ends_by,
      row_number() over (partition by x.key order by x.started desc, x.at) as no
    from (select y.* from pgrab.limit_place y where not y.over limit 20000) x
      join pgrab.task t on t.id = any (array[x.task_id])) p
    left join pgrab.node n on n.id = p.node_id
  where p.no <= p_most)
  union all
  select u.key, 'in line', t.id, coalesce(t.name, t.key), null,
    date_trunc('second', greatest(t.fire_at, t.created_at)), null
  from (select x.key from pgrab.limit_use x where x.waits limit 100) u cross join lateral (
    select y.*
    from generate_series(1, 5) b(band) cross join lateral ( -- as limit_first()
      select x.* from pgrab.task x
      where x.line = u.key and pgrab_internal.band(x.priority) = b.band and x.due_at is null
        and not x.paused
      order by x.fire_at limit p_most) y
    order by y.fire_at - pgrab_internal.limit_band(y.priority) limit p_most) t
  union all
  select u.key, 'in line', null, format('and %s%s more', w.n - p_most,
    case w.n when 10000 then '+' else '' end), null, null, null
  from (select x.key from pgrab.limit_use x where x.waits limit 100) u cross join lateral (
    select count(*) as n
    from (
      select from pgrab.task x where x.line = u.key and x.due_at is null and not x.paused limit 10000) y) w
  where w.n > p_most;
end;
comment on function pgrab_tool.limit_users is
  'Of each limit, p_most of the tasks that have its places, since when, and when their timeout ends them; '
  'and the first in line, and how many more there are.';
