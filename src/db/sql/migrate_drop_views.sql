-- A view whose columns have changed cannot be replaced: all of ours are dropped, in one statement because they stand on each other.  ACCESS EXCLUSIVE,
-- but on the views only and for the length of this transaction.  Fails, naming it, when a view of somebody else stands on one of ours.
-- Serves: db/migrate.c, only after the api was refused for that reason; `pgrab sql --from`.
do $$
declare
  v_views text := (select string_agg(format('%I.%I', 'pgrab', c.relname), ', ') from pg_class c where c.relnamespace = 'pgrab'::regnamespace and c.relkind = 'v');
begin
  if v_views is not null then
    execute 'drop view ' || v_views;
  end if;
end $$
