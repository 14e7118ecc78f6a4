-- Rows as functions pass them on: a type of our own beside each table that needs one, with its columns.
--
-- Why not the table's own type.  Where a table lies on another server, as with Citus, its row has the name of
-- the shard there (pgrab.task_102008), and a function that takes pgrab.task is not found.  So no function and
-- no variable names the row of a table.  A row that is read from a table is passed on as
--   f(row(t.*)::pgrab_internal.task)
-- which the planner takes apart again where the function is put in the place of the call; in PL/pgSQL an
-- assignment or INTO does the same.  What needs three columns or fewer takes these.
do $$
declare
  r record;
begin
  for r in
    select c.relname, string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', '
      order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'pgrab'::regnamespace
      and c.relname in ('task', 'run', 'limit', 'limit_use', 'chain', 'incident', 'cluster')
    group by c.relname
  loop
    execute format('create type pgrab_internal.%I as (%s)', r.relname, r.columns);
    execute format('comment on type pgrab_internal.%I is %L', r.relname,
      'A row of pgrab.' || r.relname || '.');
  end loop;
end $$;
