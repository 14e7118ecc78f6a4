-- A file of tasks, as JSON.  Applying it makes the tasks what it says; applying it again changes nothing.
--
--   {"source": "etl",
--    "tasks": [{"key": "nightly", "kind": "sql", "command": "...", "schedule": "@daily"}, ...],
--    "limits": [{"key": "api", "max_running": 5}, ...],
--    "quotas": [{"owner": "shop", "max_tasks": 1000}, {"share_key": "customer *", "max_running": 2}, ...],
--    "calendars": [{"name": "office", "closed_weekdays": ["sat", "sun"],
--                   "days": [{"day": "2026-12-25", "open": false, "note": "Christmas Day"}, ...]}, ...],
--    "blackouts": [{"name": "weekend", "schedule": "0 22 * * SAT", "lasts": "8 hours"}, ...]}
--
-- A column that is left out gets its default, but run_at and paused stay as they are.  "parents": ["a", "b"]
-- names parents by their keys; they must come first in the file.  {"key": "b", "run_if": "failure"} is one
-- whose link has another run_if than the task.

create or replace function pgrab_internal.apply_called(p_task jsonb) returns text
language sql immutable
return coalesce('task ' || quote_literal(p_task ->> 'key'), left(p_task::text, 100));
comment on function pgrab_internal.apply_called is 'What to call a task of a file in messages.';

create or replace function pgrab_internal.apply_refuse(p_task jsonb, p_what text, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023', hint = p_hint,
    message = pgrab_internal.apply_called(p_task) || ': ' || p_what;
end $$;
comment on function pgrab_internal.apply_refuse is 'Refuses a task of a file.';

create or replace function pgrab_internal.apply_check(p_task jsonb) returns void
language plpgsql as $$
declare
  v_member text;
begin
  if jsonb_typeof(p_task) <> 'object' or coalesce(p_task ->> 'key', '') = '' then
    perform pgrab_internal.apply_refuse(p_task, 'it has no key',
      'Each task in a file must be an object with a key.');
  end if;
  select k into v_member from jsonb_object_keys(p_task) k
  where k <> all (pgrab_internal.written() || '{parents}'::text[]) or k = 'parent_id' limit 1;
  if found then
    perform pgrab_internal.apply_refuse(p_task, format('%s is not a column that can be set', v_member),
      'Give columns of pgrab.task that users can write, and parents.');
  elsif jsonb_typeof(p_task -> 'parents') not in ('array', 'null') then
    perform pgrab_internal.apply_refuse(p_task, 'parents cannot be ' || left(p_task ->> 'parents', 100),
      'It is an array of keys: ["a", "b"].');
  end if;
  select left(p.parent::text, 100) into v_member
  from jsonb_array_elements(
    case jsonb_typeof(p_task -> 'parents') when 'array' then p_task -> 'parents' end) p(parent)
  where case jsonb_typeof(p.parent) when 'number' then false
    when 'string' then p.parent = '""'
    when 'object' then p.parent - '{key,run_if}'::text[] <> '{}' or coalesce(p.parent ->> 'key', '') = ''
      or coalesce(p.parent ->> 'run_if', 'success') not in ('success', 'failure', 'always')
    else true end limit 1;
  if found then
    perform pgrab_internal.apply_refuse(p_task, 'a parent cannot be ' || v_member,
      'It is a key, or {"key": "a", "run_if": "failure"}; run_if is success, failure or always.');
  end if;
end $$;
comment on function pgrab_internal.apply_check is 'Refuses a task of a file that is malformed.';

create or replace function pgrab_internal.apply_parents(p_task jsonb)
returns table (key text, run_if text, n bigint)
language sql immutable
begin atomic
  select case jsonb_typeof(p.parent) when 'object' then p.parent ->> 'key' else p.parent #>> '{}' end,
    coalesce(p.parent ->> 'run_if', p_task ->> 'run_if', 'success'), p.n
  from jsonb_array_elements(
    case jsonb_typeof(p_task -> 'parents') when 'array' then p_task -> 'parents' end)
    with ordinality p(parent, n);
end;
comment on function pgrab_internal.apply_parents is 'The parents of a task of a file, by their keys.';

create or replace function pgrab_internal.apply_task(p_task jsonb, p_source text, p_by text) returns void
language plpgsql as $$
declare
  v_key text;
  v_parents bigint[];
  v_ifs text[];
  v_want jsonb := p_task - 'parents';
  v_changes jsonb;
  t pgrab_internal.task;
begin
  select * into t from pgrab.task x where x.key = p_task ->> 'key' for update;
  -- the parent in its row stays there, in whatever order the file names them
  select array_agg(x.id order by x.id is distinct from t.parent_id, p.n),
    array_agg(p.run_if order by x.id is distinct from t.parent_id, p.n),
    min(p.key) filter (where x.id is null)
  into v_parents, v_ifs, v_key
  from pgrab_internal.apply_parents(p_task) p left join pgrab.task x on x.key = p.key;
  if v_key is not null then
    perform pgrab_internal.apply_refuse(p_task, format('its parent %L does not exist', v_key),
      'A parent must be a live task, or come before it in the file.');
  end if;
  v_want := pgrab_internal.apply_defaults()
    || jsonb_build_object('source', p_source, 'parent_id', v_parents[1]) || v_want
    || jsonb_strip_nulls(jsonb_build_object('run_if', v_ifs[1]));
  if t.id is null then
    t.id := pgrab_tool.add(v_want || jsonb_build_object('owner', p_by));
  elsif t.owner <> p_by and not pgrab_internal.may_operate(p_by) then
    perform pgrab_internal.apply_refuse(p_task, 'the key is taken', 'Give it another key.');
  elsif t.source <> v_want ->> 'source' and t.source <> '' then
    perform pgrab_internal.apply_refuse(p_task, format('it belongs to source %L', t.source),
      'Delete it there first, or give it another key.');
  else
    select jsonb_object_agg(w.key, v_want -> w.key) into v_changes
    from jsonb_each(to_jsonb(jsonb_populate_record(null::pgrab_internal.task, v_want))) w
    where v_want ? w.key and w.value is distinct from to_jsonb(t) -> w.key;
    if v_changes ?| '{kind,command,args,on_failure}' and t.owner <> p_by
      and not pgrab_internal.is_member(p_by, pgrab_internal.pgrab_owner()) then
      perform pgrab_internal.apply_refuse(p_task, format('it belongs to %s', t.owner),
        'Only the owner of a task can change what it runs.');
    elsif v_changes is not null then
      delete from pgrab.edge e where e.child_id = t.id and e.parent_id = v_parents[1]; -- the row has it
      perform pgrab_tool.edit(t.id, v_changes);
    end if;
  end if;
  -- the parents besides the first
  delete from pgrab.edge e
  where e.child_id = t.id and e.parent_id <> all (coalesce(v_parents[2:], '{}'));
  insert into pgrab.edge (parent_id, child_id, run_if)
  select p.id, t.id, p.run_if from unnest(v_parents[2:], v_ifs[2:]) p(id, run_if)
  on conflict (parent_id, child_id) do update set run_if = excluded.run_if
  where edge.run_if <> excluded.run_if;
end $$;
comment on function pgrab_internal.apply_task is 'Makes one task what the file says.';

-- A child of a task that is refused is not spoken of.
create or replace function pgrab_internal.apply_faults(p_tasks jsonb, p_source text, p_by text)
returns table (key text, state text, what text, hint text)
language plpgsql as $$
declare
  v_task jsonb;
  v_bad text[] := '{}';
begin
  for v_task in select * from jsonb_array_elements(p_tasks) loop
    key := coalesce(v_task ->> 'key', left(v_task::text, 100));
    if array(select p.key from pgrab_internal.apply_parents(v_task) p) && v_bad then
      v_bad := v_bad || key;
      continue;
    end if;
    begin
      perform pgrab_internal.apply_check(v_task);
      perform pgrab_internal.apply_task(v_task, p_source, p_by);
    exception when data_exception or integrity_constraint_violation or insufficient_privilege
      or undefined_object or program_limit_exceeded then
      get stacked diagnostics state = returned_sqlstate, what = message_text, hint = pg_exception_hint;
      what := case when starts_with(what, pgrab_internal.apply_called(v_task)) then what
        else pgrab_internal.apply_called(v_task) || ': ' || what end;
      v_bad := v_bad || key;
      return next;
    end;
  end loop;
end $$;
comment on function pgrab_internal.apply_faults is
  'Applies the tasks of a file one by one; what is wrong with those that are refused.';

-- One task that is refused is the error; of several each has a notice.
create or replace function pgrab_internal.apply_tasks(p_tasks jsonb, p_source text, p_by text) returns void
language plpgsql as $$
declare
  f record;
begin
  perform pgrab_internal.apply_check(x) from jsonb_array_elements(p_tasks) x;
  perform pgrab_internal.apply_task(x.task, p_source, p_by)
  from (select task from jsonb_array_elements(p_tasks) with ordinality x(task, n) order by n) x;
exception when data_exception or integrity_constraint_violation or insufficient_privilege
  or undefined_object or program_limit_exceeded then
  for f in
    select x.*, count(*) over () as n, row_number() over () as i,
      array_to_string((array_agg(x.key) over ())[:10], ', ') as keys
    from pgrab_internal.apply_faults(p_tasks, p_source, p_by) x
  loop
    if f.n = 1 then
      raise exception using errcode = f.state, message = f.what, hint = f.hint;
    end if;
    raise notice using message = f.what, hint = f.hint;
    if f.i = f.n then
      raise exception using errcode = f.state, hint = 'The notices say why; nothing was changed.',
        message = format('%s of %s tasks of the file are refused: %s', f.n, jsonb_array_length(p_tasks),
          f.keys || case when f.n > 10 then ', ...' else '' end);
    end if;
  end loop;
  raise;
end $$;
comment on function pgrab_internal.apply_tasks is
  'Makes the tasks what the file says, or says all that is wrong with it.';

create or replace function pgrab_internal.apply_twice(p_file jsonb, p_tasks jsonb) returns void
language plpgsql as $$
declare
  v_called text;
begin
  select format('%s %L', v.thing, x.item ->> v.member) into v_called
  from (values ('task', p_tasks, 'key'), ('limit', p_file -> 'limits', 'key'),
      ('quota', p_file -> 'quotas', 'owner'), ('quota', p_file -> 'quotas', 'share_key'),
      ('calendar', p_file -> 'calendars', 'name'), ('blackout', p_file -> 'blackouts', 'name'))
      v(thing, items, member)
    cross join lateral jsonb_array_elements(
      case jsonb_typeof(v.items) when 'array' then v.items end) x(item)
  where x.item ->> v.member is not null
  group by v.thing, v.member, x.item ->> v.member having count(*) > 1
  order by v.thing <> 'task', v.thing, x.item ->> v.member limit 1;
  if found then
    raise exception using errcode = '22023', message = v_called || ' is in the file twice',
      hint = 'The second would replace the first. Take one out, or give it another key or name.';
  end if;
end $$;
comment on function pgrab_internal.apply_twice is
  'Refuses a file that has two things of one kind with one key or name: the first would be lost.';

-- What is another's is left alone.  Quotas are operators' business, in whatever file they stand.  Days that
-- the file does not name stay: it may be the holidays of one year.  Of a day that it names twice, as two
-- holidays may fall on one, the first counts.
create or replace function pgrab_internal.apply_lists(p_file jsonb, p_by text) returns void
language plpgsql as $$
declare
  c_all constant boolean := pgrab_internal.may_operate(p_by);
  q pgrab_internal.quota;
begin
  insert into pgrab.limit as l (key, max_running, per_second, break_after, break_for, owner)
  select x.key, x.max_running, x.per_second, x.break_after, x.break_for, p_by
  from jsonb_to_recordset(p_file -> 'limits') x(key text, max_running integer, per_second double precision,
    break_after integer, break_for interval)
  where not pgrab_internal.limit_is_batch(x.key)
  on conflict (key) do update set max_running = excluded.max_running, per_second = excluded.per_second,
    break_after = excluded.break_after, break_for = excluded.break_for
  where (l.max_running, l.per_second, l.break_after, l.break_for)
      is distinct from (excluded.max_running, excluded.per_second, excluded.break_after, excluded.break_for)
    and (c_all or l.owner = p_by);

  if p_file -> 'quotas' is not null and not c_all then
    raise exception using errcode = '42501', message = format('%s cannot write quotas', p_by),
      hint = 'Quotas are for operators. Leave them out of the file.';
  end if;
  for q in select x.* from jsonb_populate_recordset(null::pgrab_internal.quota, p_file -> 'quotas') x loop
    q.when_full := coalesce(q.when_full, 'refuse');
    update pgrab.quota x
    set max_tasks = q.max_tasks, max_running = q.max_running, inserts_per_minute = q.inserts_per_minute,
      max_lanes = q.max_lanes, max_bytes = q.max_bytes, when_full = q.when_full
    where (x.owner = q.owner or x.share_key = q.share_key)
      and (x.max_tasks, x.max_running, x.inserts_per_minute, x.max_lanes, x.max_bytes, x.when_full)
        is distinct from (q.max_tasks, q.max_running, q.inserts_per_minute, q.max_lanes, q.max_bytes,
          q.when_full);
    insert into pgrab.quota (owner, share_key, max_tasks, max_running, inserts_per_minute, max_lanes,
      max_bytes, when_full, set_by)
    select q.owner, q.share_key, q.max_tasks, q.max_running, q.inserts_per_minute, q.max_lanes, q.max_bytes,
      q.when_full, p_by
    where not exists (select from pgrab.quota x where x.owner = q.owner or x.share_key = q.share_key);
  end loop;

  insert into pgrab.calendar (name, closed_weekdays, owner)
  select x.name, coalesce(x.closed_weekdays, '{sat,sun}'), p_by
  from jsonb_to_recordset(p_file -> 'calendars') x(name text, closed_weekdays text[])
  on conflict (name) do nothing;
  update pgrab.calendar c set closed_weekdays = x.closed_weekdays
  from jsonb_to_recordset(p_file -> 'calendars') x(name text, closed_weekdays text[])
  where c.name = x.name and c.closed_weekdays <> x.closed_weekdays and (c_all or c.owner = p_by);
  insert into pgrab.calendar_day as d (calendar, day, open, note)
  select distinct on (c.name, x.day) c.name, x.day, coalesce(x.open, false), x.note
  from jsonb_to_recordset(p_file -> 'calendars') f(name text, days jsonb)
    join pgrab.calendar c on c.name = f.name
    cross join lateral rows from (jsonb_to_recordset(f.days) as (day date, open boolean, note text))
      with ordinality x(day, open, note, n)
  where c_all or c.owner = p_by
  order by c.name, x.day, x.n
  on conflict (calendar, day) do update set open = excluded.open, note = excluded.note
  where (d.open, d.note) is distinct from (excluded.open, excluded.note);

  insert into pgrab.blackout as b
    (name, during, schedule, lasts, timezone, task_like, source, owner, action, note, set_by)
  select x.name, x.during, x.schedule, x.lasts, coalesce(x.timezone, 'UTC'), x.task_like, x.source, x.owner,
    coalesce(x.action, 'hold'), x.note, p_by
  from jsonb_to_recordset(p_file -> 'blackouts') x(name text, during tstzrange, schedule text, lasts interval,
    timezone text, task_like text, source text, owner text, action text, note text)
  on conflict (name) do update set during = excluded.during, schedule = excluded.schedule,
    lasts = excluded.lasts, timezone = excluded.timezone, task_like = excluded.task_like,
    source = excluded.source, owner = excluded.owner, action = excluded.action, note = excluded.note
  where (b.during, b.schedule, b.lasts, b.timezone, b.task_like, b.source, b.owner, b.action, b.note)
      is distinct from (excluded.during, excluded.schedule, excluded.lasts, excluded.timezone,
        excluded.task_like, excluded.source, excluded.owner, excluded.action, excluded.note)
    and (c_all or b.set_by = p_by);
end $$;
comment on function pgrab_internal.apply_lists is
  'Makes the limits, quotas, calendars and blackouts what the file says.';

create or replace function pgrab_internal.parents_named(p_id bigint, p_first bigint, p_run_if text)
returns jsonb
language sql stable
begin atomic
  select jsonb_agg(case when p.run_if = p_run_if or p.parent_id = p_first then to_jsonb(k.key)
    else jsonb_build_object('key', k.key, 'run_if', p.run_if) end
    order by p.parent_id is distinct from p_first, p.parent_id)
  from pgrab_internal.parents_of(p_id) p join pgrab.task x on x.id = p.parent_id
    cross join lateral (select coalesce(x.key, 'task-' || x.id) as key) k;
end;
comment on function pgrab_internal.parents_named is
  'The parents of a task as in a file: by their keys; p_first and p_run_if are those of its row.';

-- Serves: pgrab apply, which shows what has changed.  The time of a link, or of a schedule, is worked out.
create or replace function pgrab_tool.applied()
returns table (object text, id text, name text, definition jsonb)
language sql stable
begin atomic
  select 'task', t.id::text, coalesce(t.key, t.name, '#' || t.id),
    case when t.parent_id is not null then to_jsonb(t) - '{run_at,parent_id}'::text[] || jsonb_build_object(
        'parents', pgrab_internal.parents_named(t.id, t.parent_id, t.run_if))
      when t.schedule is not null then to_jsonb(t) - 'run_at' else to_jsonb(t) end
  from pgrab.task t
  union all
  select 'limit', l.key, l.key, to_jsonb(l) - '{key,owner}'::text[] from pgrab.limit l
  union all
  select 'quota', q.id::text, coalesce(q.owner, q.share_key),
    to_jsonb(q) - '{id,owner,share_key,set_by}'::text[]
  from pgrab.quota q
  union all
  select 'calendar', c.name, c.name, to_jsonb(c) - '{name,owner}'::text[] from pgrab.calendar c
  union all
  select 'day', d.day || ' ' || d.calendar, d.calendar || ' ' || d.day, to_jsonb(d) - '{calendar,day}'::text[]
  from pgrab.calendar_day d
  union all
  select 'blackout', b.name, b.name, to_jsonb(b) - '{name,set_by,begins_at,ends_at,edition}'::text[]
  from pgrab.blackout b;
end;
comment on function pgrab_tool.applied is 'All that a file for pgrab.apply() may write, as it is now.';

create or replace function pgrab_internal.is_of_batch(p_batch bigint, p_chain bigint) returns boolean
language sql stable
return p_batch is not null or exists (
  select from pgrab.task m where m.chain = p_chain and m.batch is not null);
comment on function pgrab_internal.is_of_batch is
  'Is a task a member of a batch, or in a chain with one? Then no file has it: it is there for that batch.';

create or replace function pgrab_internal.apply(p_file jsonb, p_source text, p_prune boolean, p_by text)
returns bigint
language plpgsql as $$
declare
  c_tasks constant jsonb := case jsonb_typeof(p_file) when 'array' then p_file else p_file -> 'tasks' end;
  c_source constant text := coalesce(p_source,
    case jsonb_typeof(p_file) when 'object' then p_file ->> 'source' end, '');
begin
  if jsonb_typeof(c_tasks) is distinct from 'array' then
    raise exception using errcode = '22023', message = 'the file holds no tasks',
      hint = 'It must be an array of tasks, or an object with an array `tasks`.';
  elsif p_prune and c_source = '' then
    raise exception using errcode = '22023', message = 'tasks that are missing from the file can only be '
      'deleted within one source', hint = 'Name the source.';
  end if;
  perform pgrab_internal.apply_twice(p_file, c_tasks);
  perform pgrab_internal.apply_lists(p_file, p_by);
  perform pgrab_internal.apply_tasks(c_tasks, c_source, p_by);
  if p_prune then
    perform pgrab_internal.event('delete', p_by, d)
    from pgrab_internal.delete(array(
      select t.id from pgrab.task t
      where t.source = c_source and (t.owner = p_by or pgrab_internal.may_operate(p_by))
        and not pgrab_internal.is_of_batch(t.batch, t.chain) and not exists (
        select from jsonb_array_elements(c_tasks) x where x ->> 'key' = t.key)
      order by t.id for update), p_by) d; -- what ends in the meantime is not deleted
  end if;
  return jsonb_array_length(c_tasks);
end $$;
comment on function pgrab_internal.apply is 'pgrab.apply() for a caller.';

create or replace function pgrab.apply(
  p_file jsonb, p_source text default null, p_prune boolean default false)
returns bigint
language sql
begin atomic
  with answer as (
    insert into pgrab_internal.call (verb, file, word, done) values ('apply', p_file, p_source, p_prune)
    returning n)
  select a.n from answer a;
end;
comment on function pgrab.apply(jsonb, text, boolean) is
  'Makes tasks what a file says, matched by key; a second time, it changes nothing. With prune, other tasks '
  'of that source are deleted. Returns how many tasks the file has.';

create or replace function pgrab_internal.export_task(t pgrab_internal.task) returns jsonb
language sql stable
return jsonb_strip_nulls(jsonb_build_object('key', coalesce(t.key, 'task-' || t.id), 'name', t.name, 'kind',
    t.kind, 'run_at', case when t.schedule is null and t.parent_id is null then t.run_at end,
    'paused', nullif(t.paused, false), 'source', nullif(t.source, ''),
    'parents', pgrab_internal.parents_named(t.id, t.parent_id, t.run_if)))
  || (coalesce(pgrab_internal.definition_own(t), '{}') - '{parent_id,key}'::text[]);
comment on function pgrab_internal.export_task is 'A task as a member of a file for pgrab.apply().';

create or replace function pgrab_internal.links_depth() returns table (id bigint, depth bigint)
language sql stable
begin atomic
  with recursive down(id, depth) as (
    select t.id, 0::bigint from pgrab.task t where t.chain is not null and t.parent_id is null
    union
    select c.child_id, d.depth + 1 from down d cross join lateral pgrab_internal.children_of(d.id) c)
  select d.id, max(d.depth) from down d group by d.id;
end;
comment on function pgrab_internal.links_depth is
  'How far below the root of its chain each link is, at most: further than each of its parents.';

-- What the tasks of a source name goes with them.  Only operators may apply quotas, so only they get them.
create or replace function pgrab.export(p_source text default null) returns jsonb
language sql stable
return jsonb_strip_nulls(jsonb_build_object('source', p_source,
  'limits', (select jsonb_agg(to_jsonb(l) - 'owner' order by l.key)
    from pgrab.limit l
    where not pgrab_internal.limit_is_batch(l.key) and (p_source is null or l.key = any (array(
      select k.key from (select distinct t.limit_key from pgrab.task t where t.source = p_source) u
        cross join lateral unnest(u.limit_key || pgrab_internal.limit_patterns(u.limit_key)) k(key))))),
  'quotas', (select jsonb_agg(to_jsonb(q) - '{id,set_by}'::text[] order by q.owner, q.share_key)
    from pgrab.quota q where p_source is null and pgrab_internal.may_operate(current_user)),
  'calendars', (
    select jsonb_agg(jsonb_build_object('name', c.name, 'closed_weekdays', c.closed_weekdays, 'days', (
      select jsonb_agg(to_jsonb(d) - 'calendar' order by d.day)
      from pgrab.calendar_day d where d.calendar = c.name)) order by c.name)
    from pgrab.calendar c
    where p_source is null or exists (
      select from pgrab.task t where t.source = p_source and t.calendar = c.name)),
  'blackouts', (
    select jsonb_agg(to_jsonb(b) - '{set_by,begins_at,ends_at,edition}'::text[] order by b.name)
    from pgrab.blackout b
    where coalesce(b.source = p_source, p_source is null) and b.begins_at is not null))) ||
  jsonb_build_object('tasks', coalesce((
    select jsonb_agg(pgrab_internal.export_task(row(t.*)::pgrab_internal.task)
      order by coalesce(l.depth, 0), t.id)
    from pgrab.task t left join pgrab_internal.links_depth() l on l.id = t.id
    where coalesce(t.source = p_source, true)
      and not pgrab_internal.is_of_batch(t.batch, t.chain)), '[]'));
comment on function pgrab.export(text) is
  'The live tasks, limits, calendars, blackouts and, for operators, quotas (or the tasks of one source, and '
  'the limits, calendars and blackouts for them) in the form that pgrab.apply() takes; a task without a key '
  'is given one. Members of batches are left out.';
