-- Row types that functions pass around: for each table that needs one, a type of ours with its columns.
--
-- Why not the table's own type.  Where a table lives on another server, as with Citus, its rows have the type
-- of the shard there (pgrab.task_102008), and a function that takes pgrab.task is not found.  So no function
-- and no variable uses the row type of a table.  A row that is read from a table is passed on as
--   f(row(t.*)::pgrab_internal.task)
-- which the planner takes apart again when it inlines the function; in PL/pgSQL an assignment or INTO does
-- the same.  A function that needs three columns or fewer takes those.
--
-- A type that a user's view depends on could not be dropped; so an existing one gets the new columns, and
-- loses those that are gone.
do $$
declare
  c_tables constant text[] := '{task,lane,run,limit,limit_use,quota,blackout,chain,incident,cluster}';
  v_table text;
  v_type text;
  v_changes text;
begin
  foreach v_table in array c_tables loop
    v_type := format('pgrab_internal.%I', v_table);
    if to_regtype(v_type) is null then
      execute format('create type %s as ()', v_type);
      execute format('comment on type %s is %L', v_type, format('A row of pgrab.%I.', v_table));
    end if;
    with has as (
      select a.* from pg_attribute a
      where a.attrelid = to_regclass(format('pgrab.%I', v_table)) and a.attnum > 0 and not a.attisdropped),
    knows as (
      select a.* from pg_attribute a join pg_type t on t.typrelid = a.attrelid
      where t.oid = to_regtype(v_type) and a.attnum > 0 and not a.attisdropped)
    select string_agg(c.change, ', ' order by c.attnum) into v_changes
    from (
      select h.attnum, format('add attribute %I %s', h.attname, format_type(h.atttypid, h.atttypmod))
      from has h where h.attname not in (select k.attname from knows k)
      union all
      select k.attnum, format('drop attribute %I', k.attname)
      from knows k where k.attname not in (select h.attname from has h)) c(attnum, change);
    if v_changes is not null then
      execute format('alter type %s %s', v_type, v_changes);
    end if;
  end loop;
end $$;
