-- Opens the transaction of one migration.  The lock makes a second migrator wait here until the first has
-- committed; then it finds the work done.  A table of ours: anybody may hold an advisory lock, and that is
-- only for the moment before there is one. From then on a lock that a reader or writer holds is waited for
-- only briefly, because everybody who comes later waits behind us.
-- Serves: db/migrate.c.
begin isolation level read committed;
set local lock_timeout = '120s';
do $$
declare
  v_owner constant text := (
    select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'pgrab');
begin
  -- what is made belongs to who owns the rest
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
set local lock_timeout = '3s';
set local search_path = pg_catalog, pg_temp;
set local client_min_messages = warning
