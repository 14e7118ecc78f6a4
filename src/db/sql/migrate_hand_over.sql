-- Makes pgrab_owner the owner of everything in pgrab's schemas, and continues this transaction as that role.
-- Serves: db/migrate.c, pgrab migrate --roles; after the api was dropped, before it is applied.
do $$
declare
  c_schemas constant text[] := array['pgrab', 'pgrab_internal', 'pgrab_tool', 'pgrab_sql'];
  v_name text;
begin
  for v_name in
    select n.oid::regnamespace from pg_namespace n
    where n.nspname = any (c_schemas)
      and pg_get_userbyid(n.nspowner) <> 'pgrab_owner'
  loop
    execute format('alter schema %s owner to pgrab_owner', v_name);
  end loop;
  for v_name in
    select format('alter table %s owner to pgrab_owner', c.oid::regclass) from pg_class c
    where c.relnamespace = any (c_schemas::regnamespace[])
      and c.relkind in ('r', 'p', 'v', 'S') and pg_get_userbyid(c.relowner) <> 'pgrab_owner'
      and not (c.relkind = 'S' and exists (select from pg_depend d -- goes with its table
        where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'i'))
    union all
    select format('alter type %s owner to pgrab_owner', t.oid::regtype)
    from pg_type t left join pg_class c on c.oid = t.typrelid
    where t.typnamespace = any (c_schemas::regnamespace[]) and (t.typtype = 'd' or c.relkind = 'c')
      and pg_get_userbyid(t.typowner) <> 'pgrab_owner'
    union all
    select format('alter routine %s owner to pgrab_owner', p.oid::regprocedure) from pg_proc p
    where p.pronamespace = any (c_schemas::regnamespace[])
      and pg_get_userbyid(p.proowner) <> 'pgrab_owner'
  loop
    execute v_name;
  end loop;
  update pgrab.cluster c set roles = true where not c.roles;
  perform set_config('role', 'pgrab_owner', true);
end $$
