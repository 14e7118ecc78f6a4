-- The schema as a text of one line per thing: what test_schema.py compares with migrations/schema.txt.
-- Partitions of a day are left out, and what PostgreSQL makes by itself.
set search_path = pg_catalog;
with space as (
  select n.oid, n.nspname from pg_namespace n where n.nspname in ('pgrab', 'pgrab_internal', 'pgrab_tool')),
class as (
  select c.oid, c.relname, s.nspname, c.relkind, c.reltype, format('%s.%s', s.nspname, c.relname) as name,
    coalesce(c.reloptions, '{}') as options
  from pg_class c join space s on s.oid = c.relnamespace
  where c.relkind in ('r', 'p', 'v', 'c', 'S') and not c.relispartition
    and not exists (select from pg_depend d where d.objid = c.oid and d.deptype in ('i', 'a')
      and c.relkind = 'S')),
line (section, name, part, no, text) as (
  select case c.relkind when 'c' then 3 when 'v' then 2 when 'S' then 4 else 1 end, c.name, 0, 0,
    concat(
      case c.relkind when 'c' then 'type' when 'v' then 'view' when 'S' then 'sequence' else 'table' end,
      ' ', c.name, case when c.relkind = 'p' then ' ' || lower(pg_get_partkeydef(c.oid)) end,
      ' (' || nullif(array_to_string(c.options, ', '), '') || ')')
  from class c
  union all
  select case c.relkind when 'c' then 3 when 'v' then 2 else 1 end, c.name, 1, a.attnum,
    concat('  ', a.attname, ' ', format_type(a.atttypid, a.atttypmod),
      case when a.attnotnull then ' not null' end,
      case a.attidentity when 'a' then ' generated always as identity' when 'd' then ' generated as identity'
        end,
      case when a.attgenerated = '' then ' default ' else ' generated always as ' end
        || pg_get_expr(d.adbin, d.adrelid, true))
  from class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relkind <> 'S'
  union all
  select 1, c.name, 2, row_number() over (partition by c.oid order by k.conname),
    format('  constraint %s: %s', k.conname, pg_get_constraintdef(k.oid, true))
  from class c join pg_constraint k on k.conrelid = c.oid and k.contype in ('p', 'u', 'f', 'c', 'x')
  union all
  select 3, format('%s.%s', s.nspname, t.typname), case when k.oid is null then 0 else 2 end,
    coalesce(row_number() over (partition by t.oid order by k.conname), 0),
    case when k.oid is null then format('domain %s.%s over %s', s.nspname, t.typname, t.typbasetype::regtype)
      else format('  constraint %s: %s', k.conname, pg_get_constraintdef(k.oid, true)) end
  from pg_type t join space s on s.oid = t.typnamespace
    left join lateral (select null::oid as oid, null::name as conname union all
      select x.oid, x.conname from pg_constraint x where x.contypid = t.oid) k on true
  where t.typtype = 'd'
  union all
  select 1, c.name, 3, row_number() over (partition by c.oid order by i.relname),
    concat('  ', case when x.indisunique then 'unique ' end, 'index ', i.relname, ': ',
      regexp_replace(pg_get_indexdef(i.oid, 0, true), '^.* USING ', ''))
  from class c join pg_index x on x.indrelid = c.oid join pg_class i on i.oid = x.indexrelid
  where not exists (select from pg_constraint k where k.conindid = i.oid and k.contype in ('p', 'u', 'x'))
  union all
  select case c.relkind when 'v' then 2 else 1 end, c.name, 4,
    row_number() over (partition by c.oid order by t.tgname),
    format('  trigger %s: %s', t.tgname, btrim(
      regexp_replace(pg_get_triggerdef(t.oid, true),
        '^CREATE (CONSTRAINT )?TRIGGER \S+ | ON \S+| EXECUTE FUNCTION', '', 'g')))
  from class c join pg_trigger t on t.tgrelid = c.oid and not t.tgisinternal
  union all
  select 1, c.name, 5, row_number() over (partition by c.oid order by p.polname),
    concat('  policy ', p.polname, ': ', pg_get_expr(p.polqual, p.polrelid, true))
  from class c join pg_policy p on p.polrelid = c.oid
  union all
  select case s.nspname when 'pgrab' then 5 else 6 end, s.nspname, 0, row_number() over (
      partition by s.nspname order by p.proname, pg_get_function_identity_arguments(p.oid) collate "C"),
    concat(s.nspname, '.', p.proname, '(', pg_get_function_identity_arguments(p.oid), ') returns ',
      pg_get_function_result(p.oid), case when l.lanname <> 'sql' then ' ' || l.lanname end,
      case when p.prosecdef then ' security definer' end)
  from pg_proc p join space s on s.oid = p.pronamespace join pg_language l on l.oid = p.prolang)
select case when section in (5, 6) and no = 1 then E'\nfunctions of ' || name || E'\n' else '' end
  || case when section in (5, 6) then '  ' else '' end
  || repeat(E'\n', (part = 0 and section < 5)::int) || regexp_replace(
    -- each database has a secret of its own
    regexp_replace(text, '\m[0-9a-f]{32}\M', '...', 'g'), '\n\s*', ' ', 'g')
from line
order by section, name collate "C", part, no;
