-- No function takes, returns or declares the row of a table: on another server that has another name.
begin;
select plan(8);
create temporary view tables as
select n.nspname, c.relname, t.oid as type, t.typarray as array_type
from pg_class c join pg_type t on t.oid = c.reltype join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('pgrab', 'pgrab_internal') and c.relkind in ('r', 'p');
create temporary view functions as
select p.oid, p.oid::regprocedure::text as name,
  p.proargtypes::oid[] || coalesce(p.proallargtypes, '{}') || p.prorettype as types,
  coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) as body
from pg_proc p
where p.pronamespace = any (array['pgrab', 'pgrab_internal', 'pgrab_tool', 'pgrab_sql']::regnamespace[]);

select cmp_ok((select count(*) from tables), '>', 30::bigint, 'there are tables to ask about');
select is((select string_agg(f.name, ', ')
    from functions f join tables t on array[t.type, t.array_type] && f.types),
  null, 'no function has the row of a table as a parameter or a result');
select is((select string_agg(f.name, ', ') from functions f where f.body ~* '%\s*rowtype'), null,
  'nor a variable by %rowtype');
-- As a variable, and in a cast.  "from pgrab.edge;" at the beginning of a line is neither.
create function pg_temp.names(p_body text, p_type text) returns boolean language sql as $$
  select p_body ~ ('(::|\n +(?!from |join |into |update |only )[a-z_]+ (constant )?)'
    || p_type || '(\[\])?(\s*:=|;|\)|,)')
$$;
select is((select string_agg(distinct f.name || ': ' || t.relname, ', ')
    from functions f join tables t on pg_temp.names(f.body, t.nspname || '\."?' || t.relname || '"?')),
  null, 'nor one of its type');
select ok(pg_temp.names(e'declare\n  t pgrab.task;', 'pgrab\.task')
    and pg_temp.names('select null::pgrab.task[];', 'pgrab\.task')
    and not pg_temp.names(e'select 1\n  from pgrab.task;', 'pgrab\.task'), 'which would be seen');
-- Whoever is let near a function of pgrab has no right to the schema of the types, but in what was parsed.
select is((select string_agg(p.oid::regprocedure::text, ', ') from pg_proc p
    where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_tool'::regnamespace) and p.prosqlbody is null
      and not p.prosecdef and p.prosrc ~ '\mpgrab_internal\.'),
  null, 'no text that runs with its caller''s rights names what he may not');
-- The types of our own are what the tables are, column by column.
create temporary view columns as
select c.relnamespace::regnamespace::text as schema, c.relname, c.relkind,
  string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' order by a.attnum) as list
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind in ('r', 'p', 'c') group by 1, 2, 3;
select is((select count(*)
    from columns x join columns t on t.schema = 'pgrab' and t.relname = x.relname and t.relkind <> 'c'
    where x.schema = 'pgrab_internal' and x.relkind = 'c' and t.list = x.list),
  10::bigint, 'ten tables have a type beside them');
select is((select string_agg(x.relname, ', ')
    from columns x join columns t on t.schema = 'pgrab' and t.relname = x.relname and t.relkind <> 'c'
    where x.schema = 'pgrab_internal' and x.relkind = 'c' and t.list <> x.list),
  null, 'and each has the columns of its table');
select * from finish();
rollback;
