-- Names and rights.  Last of all files: it goes over what the others have made.
--
-- Whose names a function finds.  Everybody may make functions and operators in a schema of his own, and in
-- `public` whoever was let; PostgreSQL takes the best match on the whole path.  So no function of ours looks
-- anything up by the path of whoever calls it:
--   begin atomic / return   names are bound when the function is made; it runs as its caller, and PostgreSQL
--                           may put it in the place of the call
--   a text                  its path is pinned here
--
-- Whose rights it has.  In pgrab_internal a text runs as the owner of pgrab: it is called by triggers, by
-- nodes, and by parsed functions and views that have asked what the caller may see.  Nobody else gets there:
-- no role but the nodes' has USAGE on that schema.
do $$
declare
  -- What needs the rights of who calls it.
  c_as_caller constant text[] := '{end_sql_backends}';
  r record;
begin
  for r in
    select p.oid::regprocedure as name, p.proname <> all (c_as_caller)
      and p.pronamespace = 'pgrab_internal'::regnamespace as definer
    from pg_proc p
    where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_internal'::regnamespace)
      and p.prosqlbody is null
      and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
  loop
    execute format('alter function %s %s set search_path = pg_catalog, pg_temp', r.name,
      case when r.definer then 'security definer' else '' end);
  end loop;
end $$;

-- Views show what their reader may see.
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

-- What is in nobody's list is nobody's.
revoke all on schema pgrab, pgrab_internal from public;
revoke all on all tables in schema pgrab, pgrab_internal from public;
revoke all on all routines in schema pgrab, pgrab_internal from public;
-- conditions of triggers ask it, whoever writes
grant execute on function pgrab_internal.in_call(), pgrab_internal.call_verb() to public;

do $$
begin
  if (select c.roles from pgrab.cluster c) then
    perform pgrab_internal.rights_tables();
    perform pgrab_internal.rights_people();
    perform pgrab_internal.rights_routines();
    perform pgrab_internal.rights_node();
  end if;
  insert into pgrab.event (what) values ('migrate');
end $$;
