-- Opens the transaction of one migration.  The lock makes a second migrator wait here until the first has
-- committed; then it finds the work done.  It is a lock on a table of ours, because any role may hold an
-- advisory lock; that is used only before the table exists.  From then on we wait only briefly for the locks
-- of readers and writers, because every later session waits behind us.
-- Serves: db/migrate.c.
begin isolation level read committed;
set local lock_timeout = '120s';
do $$
declare
  v_owner constant text := (
    select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'pgrab');
begin
  -- so that new objects belong to the owner of the others
  if v_owner <> current_user and pg_has_role(v_owner, 'MEMBER') and v_owner = 'pgrab_owner' then
    perform set_config('role', v_owner, true);
  end if;
  if to_regclass('pgrab.migration') is null then
    perform pg_advisory_xact_lock(hashtextextended('pgrab.migrate', 0));
  end if;
  if to_regclass('pgrab.migration') is not null then
    lock table pgrab.migration in share row exclusive mode;
  end if;
end $$;
set local lock_timeout = '250ms';
set local search_path = pg_catalog, pg_temp;
set local client_min_messages = warning
