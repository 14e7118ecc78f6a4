-- Names and rights.  The last file, because it goes over everything that the others have created.
--
-- Which names a function finds.  A role may create functions and operators in its own schema, and perhaps in
-- `public`; PostgreSQL takes the best match on the whole path.  So none of our functions looks anything up by
-- the search_path of its caller:
--   begin atomic / return   names are bound when the function is created; it runs as its caller, and
--                           PostgreSQL may inline it
--   a text                  its search_path is pinned here
--
-- Which rights it has.  In pgrab_internal, functions with a text run as the owner of pgrab: they are called
-- by triggers, by nodes, and by parsed functions and views that have checked what the caller may see.  They
-- cannot be called in any other way: only the nodes' role has USAGE on that schema.  What must run with the
-- rights of its caller, and is not for users, is in pgrab_tool.
do $$
declare
  -- functions that need the rights of their caller
  c_as_caller constant text[] := '{end_sql_backends,may_lose}';
  r record;
begin
  for r in
    select p.oid::regprocedure as name, p.proname <> all (c_as_caller)
      and p.pronamespace = 'pgrab_internal'::regnamespace as definer
    from pg_proc p
    where p.pronamespace = any (array['pgrab', 'pgrab_internal', 'pgrab_tool']::regnamespace[])
      and p.prosqlbody is null
      and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    execute format('alter function %s %s set search_path = pg_catalog, pg_temp', r.name,
      case when r.definer then 'security definer' else '' end);
  end loop;
end $$;

-- Views show only what their reader may see.
do $$
declare
  r record;
begin
  for r in
    select c.oid::regclass as name from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind = 'v'
  loop
    execute format('alter view %s set (security_invoker = true)', r.name);
  end loop;
end $$;

-- What is not granted to a role is for no role.
revoke all on schema pgrab, pgrab_internal, pgrab_tool from public;
revoke all on all tables in schema pgrab, pgrab_internal, pgrab_tool from public;
revoke all on all routines in schema pgrab, pgrab_internal, pgrab_tool from public;
-- conditions of triggers call these in every session that writes
grant execute on function pgrab_internal.in_call(), pgrab_internal.call_verb(), pgrab_internal.by_person()
  to public;

do $$
begin
  if (select c.roles from pgrab.cluster c) then
    perform pgrab_internal.rights_rows();
    perform pgrab_internal.rights_tables();
    perform pgrab_internal.rights_when();
    perform pgrab_internal.rights_routines();
    perform pgrab_internal.rights_node();
  end if;
  insert into pgrab.event (what) values ('migrate');
end $$;
