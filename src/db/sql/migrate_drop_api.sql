-- Before the api is applied: what an earlier one made goes, all of it, so that a function whose parameters or result
-- have changed can be made anew, and one that has no place any more is gone.  Views go in one statement, because they
-- stand on each other.  Fails, naming it, when something of somebody else stands on one of ours.
-- Serves: db/migrate.c, `pgrab sql --from`.
do $$
declare
  c_schemas constant regnamespace[] := array['pgrab', 'pgrab_internal'];
  v_views text := (
    select string_agg(c.oid::regclass::text, ', ')
    from pg_class c where c.relnamespace = any (c_schemas) and c.relkind = 'v');
  v_drop text;
begin
  for v_drop in
    select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
    from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_proc p on p.oid = t.tgfoid
    where c.relnamespace = any (c_schemas) and p.pronamespace = any (c_schemas)
      and not t.tgisinternal and t.tgparentid = 0
  loop
    execute v_drop;
  end loop;
  if v_views is not null then
    execute 'drop view ' || v_views;
  end if;
  select string_agg(p.oid::regprocedure::text, ', ') into v_drop
  from pg_proc p
  where p.pronamespace = any (c_schemas) and not exists (
    select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e');
  if v_drop is not null then
    execute 'drop routine ' || v_drop;
  end if;
  select string_agg(t.oid::regtype::text, ', ') into v_drop
  from pg_type t join pg_class c on c.oid = t.typrelid
  where t.typnamespace = any (c_schemas) and c.relkind = 'c';
  if v_drop is not null then
    execute 'drop type ' || v_drop;
  end if;
end $$
