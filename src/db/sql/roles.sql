-- Creates the roles for separate rights; see docs/security.md.  They cannot log in: grant them to roles that
-- can.  This needs CREATEROLE, and may be run again: a role that exists stays as it is.  The setting: see
-- migrate_tables.sql.
-- Serves: pgrab migrate --roles, pgrab sql --roles.
do $$
declare
  c_kinds constant text[] := '{sql,noop,notify,batch,shell,exec,http}';
  c_path constant text := pg_catalog.current_setting('search_path');
  v_role text;
begin
  -- from here on nothing is looked up by the search_path of the role that runs it
  perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  perform set_config('citus.enable_ddl_propagation', 'off', true);
  foreach v_role in array
    '{pgrab_owner,pgrab_node,pgrab_submit,pgrab_operator,pgrab_read,pgrab_serve,pgrab_signal,
      pgrab_callback}'::text[]
    || array(select 'pgrab_kind_' || k from unnest(c_kinds) k)
  loop
    if to_regrole(v_role) is null then
      execute format('create role %I nologin', v_role);
    end if;
  end loop;
  -- these kinds can do no more than their owner; shell, exec and http are granted one by one
  foreach v_role in array '{pgrab_kind_sql,pgrab_kind_noop,pgrab_kind_notify,pgrab_kind_batch}'::text[] loop
    if not pg_has_role('pgrab_submit', v_role, 'MEMBER') then
      execute format('grant %I to pgrab_submit', v_role);
    end if;
  end loop;
  foreach v_role in array '{pgrab_serve,pgrab_signal}'::text[] loop
    if not pg_has_role(v_role, 'pgrab_read', 'MEMBER') then
      execute format('grant pgrab_read to %I', v_role);
    end if;
  end loop;
  -- from PostgreSQL 16 on, the creator of a role is a member of it, but may not act as it
  if not pg_has_role('pgrab_owner', 'USAGE') then
    execute format('grant pgrab_owner to %I', current_user);
  end if;
  perform set_config('search_path', c_path, true);
end $$
