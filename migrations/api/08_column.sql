-- The catalogue of the columns of pgrab.task is the table itself: a column is the users' unless its comment
-- begins with "System:", and its default is the one that a task gets for null or for nothing.  What reads
-- this in every statement has it as text, which is made from here whenever pgrab is migrated.

create or replace view pgrab_internal.task_column as
select a.attname::text as name, a.attnum as place,
  coalesce(pg_get_expr(d.adbin, d.adrelid), 'null') as fallback, a.attnotnull as filled,
  col_description(a.attrelid, a.attnum) like 'System:%' as system
from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = 'pgrab.task'::regclass and a.attnum > 0 and not a.attisdropped
  and a.attname not in ('id', 'owner'); -- who inserts says neither
comment on view pgrab_internal.task_column is 'The columns of pgrab.task.';
comment on column pgrab_internal.task_column.name is 'Its name.';
comment on column pgrab_internal.task_column.place is 'The order in which they are listed.';
comment on column pgrab_internal.task_column.fallback is 'An expression: its default.';
comment on column pgrab_internal.task_column.filled is 'Is it never null?';
comment on column pgrab_internal.task_column.system is 'Does the system write it? Otherwise users do.';

-- A default that is `now()` or the like is none here: these columns are filled when the task is planned.  A
-- null kind is refused: it would make the text of some other kind SQL.
create or replace function pgrab_internal.task_fallbacks(p_form text, p_between text, p_not text[])
returns text
language sql stable as $$
  select string_agg(format(p_form, c.name, c.fallback), p_between order by c.place)
  from pgrab_internal.task_column c
  where c.filled and not c.system and c.name <> 'run_at' and c.name <> all (p_not)
$$;
comment on function pgrab_internal.task_fallbacks is
  'A text for each users'' column that has a constant default: %1$I is its name, %2$s the default.';

create or replace function pgrab_internal.task_states(p_form text, p_between text, p_filled boolean)
returns text
language sql stable as $$
  select string_agg(format(p_form, c.name, c.fallback), p_between order by c.place)
  from pgrab_internal.task_column c
  where c.system and c.name not in ('due_at', 'fire_at') and c.filled = coalesce(p_filled, c.filled)
$$;
comment on function pgrab_internal.task_states is
  'The same for the system''s columns but those of the plan; p_filled: only those that are never null, or '
  'that may be.';

do $$
declare
  v_defaults jsonb;
begin
  execute (
    select format('select to_jsonb(d) from (select %s) d',
      string_agg(format('%s as %I', c.fallback, c.name), ', '))
    from pgrab_internal.task_column c
    -- not those that a file of tasks says in its own way, or leaves as they are
    where not c.system
      and c.name not in ('key', 'parent_id', 'batch', 'run_at', 'paused', 'source', 'traceparent'))
    into v_defaults;
  execute format('create or replace function pgrab_internal.written() returns text[] language sql immutable '
    'return %L::text[]', array(
      select c.name from pgrab_internal.task_column c where not c.system order by c.place));
  execute format('create or replace function pgrab_internal.apply_defaults() returns jsonb '
    'language sql immutable return %L::jsonb', v_defaults);
end $$;
comment on function pgrab_internal.written is 'The columns of pgrab.task that users write.';
comment on function pgrab_internal.apply_defaults is
  'The columns that a file of tasks may leave out, with their defaults.';

create or replace function pgrab_tool.task_columns() returns text[]
language sql immutable
return pgrab_internal.written();
comment on function pgrab_tool.task_columns is 'The columns of pgrab.task that users write.';
