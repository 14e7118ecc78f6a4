-- How tasks have changed.

-- A deleted task is found by the last key or name that it had.
create or replace function pgrab_tool.defined_id(p_task text) returns bigint
language sql stable
return case when p_task ~ '^-?[0-9]{1,18}$' or exists (select from pgrab.task t where t.key = p_task)
    or exists (select from pgrab.task t where t.name = p_task)
  then pgrab_tool.id_of(p_task) else coalesce((
    select d.task_id
    from (
      select x.task_id, coalesce(x.until, x.since) as at from pgrab.definition x
      where p_task in (x.definition ->> 'key', x.definition ->> 'name')
      union all
      select r.task_id, r.finished_at from pgrab.run r
      where (r.key = p_task or r.name = p_task) and r.ended is not null) d
    order by d.at desc limit 1), pgrab_tool.id_of(p_task)) end;
comment on function pgrab_tool.defined_id is
  'Like pgrab_tool.id_of(), but also finds deleted tasks, as long as pgrab.definition knows them.';

-- The functions on tasks take any of these, so that each of them is one; PostgreSQL takes a literal for text.
create or replace function pgrab_tool.ids_of(p_tasks anycompatible, p_gone boolean default false)
returns bigint[]
language plpgsql stable as $$
declare
  c_type constant regtype := pg_typeof(p_tasks);
begin
  if c_type in ('bigint'::regtype, 'integer'::regtype, 'smallint'::regtype) then
    return array[p_tasks::bigint];
  elsif c_type in ('bigint[]'::regtype, 'integer[]'::regtype, 'smallint[]'::regtype) then
    return p_tasks::bigint[];
  elsif c_type in ('text[]'::regtype, 'character varying[]'::regtype, 'name[]'::regtype) then
    return array(
      select case when p_gone then pgrab_tool.defined_id(u.task) else pgrab_tool.id_of(u.task) end
      from unnest(p_tasks::text[]) with ordinality u(task, n) order by u.n);
  elsif c_type in ('text'::regtype, 'character varying'::regtype, 'name'::regtype) then
    return pgrab_tool.ids_of(array[p_tasks::text], p_gone);
  end if;
  raise exception using errcode = '22023', message = format('a value of type %s is no task', c_type),
    hint = 'Give the id, the key or the name of a task, or an array of them.';
end $$;
comment on function pgrab_tool.ids_of is
  'The ids of tasks that are given by an id, a key or a name (see pgrab_tool.id_of()), or by an array of '
  'these; with p_gone, deleted ones, too.';

create or replace function pgrab.changes(p_id bigint)
returns table (at timestamptz, role text, version bigint, changed text, before text, after text)
language sql stable
begin atomic
  with span as (
    select d.since, d.role, d.version, d.definition as new,
      lag(d.definition) over (order by d.version) as old
    from pgrab.definition d where d.task_id = p_id)
  select s.since, s.role, s.version, k.key, coalesce(s.old ->> k.key, f.fallback ->> k.key),
    coalesce(s.new ->> k.key, f.fallback ->> k.key)
  from span s cross join lateral jsonb_object_keys(s.old || s.new) k(key)
    cross join pgrab_internal.apply_defaults() f(fallback)
  where s.old is not null and s.old -> k.key is distinct from s.new -> k.key
  order by s.version, k.key;
end;
comment on function pgrab.changes(bigint) is
  'How the definition of a task has changed, the oldest change first: one row for each column. It applied to '
  'runs from that version on (pgrab.run.version). Changes older than the retention may be missing.';

create or replace function pgrab.changes(p_task text)
returns table (at timestamptz, role text, version bigint, changed text, before text, after text)
language sql stable
begin atomic
  select * from pgrab.changes(pgrab_tool.defined_id(p_task));
end;
comment on function pgrab.changes(text) is 'The same for a task given by its key or its name.';
