-- Before the api is applied: drops what an earlier one created, so that a function whose parameters or result
-- have changed can be created again, and removed ones are gone.  Objects that users' objects depend on stay
-- and are replaced in place; that fails, naming the object, only if its columns or result changed.  What
-- roles that are not pgrab's have been granted is kept for migrate_grants.sql.
-- Serves: db/migrate.c, `pgrab sql --from`.
do $$
declare
  c_schemas constant regnamespace[] := array['pgrab', 'pgrab_internal', 'pgrab_tool', 'pgrab_sql'];
  v_drop text;
  v_gone boolean;
begin
  perform set_config('pgrab.grants', (
    select coalesce(jsonb_agg(format('grant %s %s to %I%s', a.privilege_type, o.name,
      pg_get_userbyid(a.grantee), case when a.is_grantable then ' with grant option' end)), '[]')::text
    from (
      select c.relacl as acl, 'on table ' || c.oid::regclass as name, c.relowner as owner
      from pg_class c where c.relnamespace = any (c_schemas) and c.relkind = 'v'
      union all
      select a.attacl, format('(%I) on table %s', a.attname, c.oid::regclass), c.relowner
      from pg_class c join pg_attribute a on a.attrelid = c.oid
      where c.relnamespace = any (c_schemas) and c.relkind = 'v'
      union all
      select p.proacl, 'on routine ' || p.oid::regprocedure, p.proowner
      from pg_proc p where p.pronamespace = any (c_schemas)) o
      cross join lateral aclexplode(o.acl) a
    where a.grantee <> 0 and a.grantee <> o.owner and pg_get_userbyid(a.grantee)
      !~ '^pgrab_(owner|node|submit|operator|read|serve|signal|callback|kind_.*)$'), true);
  for v_drop in
    select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
    where c.relnamespace = any (c_schemas) and p.pronamespace = any (c_schemas)
      and not t.tgisinternal and t.tgparentid = 0
    order by c.relname <> 'task' -- inserts lock that table first: another order could deadlock with them
  loop
    execute v_drop;
  end loop;
  loop
    v_gone := false;
    for v_drop in
      select 'drop view ' || c.oid::regclass
      from pg_class c where c.relnamespace = any (c_schemas) and c.relkind = 'v'
      union all
      select 'drop routine ' || p.oid::regprocedure
      from pg_proc p
      where p.pronamespace = any (c_schemas) and not exists (
        select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
      union all
      select 'drop type ' || t.oid::regtype
      from pg_type t join pg_class c on c.oid = t.typrelid
      where t.typnamespace = any (c_schemas) and c.relkind = 'c'
    loop
      begin
        execute v_drop;
        v_gone := true;
      exception when dependent_objects_still_exist then
        null; -- the next round drops it, if what depends on it is ours and gone by then
      end;
    end loop;
    exit when not v_gone;
  end loop;
end $$
