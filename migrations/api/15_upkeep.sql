-- Daily partitions of the history: made ahead, dropped behind, by any node (no leader), at start and every
-- hour.

create or replace function pgrab.upkeep(p_retention interval default '7 days', p_days_ahead integer default 3) returns table (what text, partition text)
language plpgsql
set lock_timeout = '2s'
set search_path = pg_catalog, pg_temp
set timezone = 'UTC' as $$
declare
  v_day date;
  v_name text;
  v_today date := clock_timestamp()::date;
begin
  -- Two nodes at once: the second has nothing left to do.
  if not pg_try_advisory_xact_lock(hashtextextended('pgrab.upkeep', 0)) then
    return;
  end if;
  for v_day in select generate_series(v_today - 1, v_today + p_days_ahead, interval '1 day')::date loop
    v_name := 'run_' || to_char(v_day, 'YYYYMMDD');
    if to_regclass('pgrab.' || v_name) is null then
      -- Made apart and then attached: attaching lets readers and writers of the history go on.
      execute format('create table pgrab.%I (like pgrab.run including defaults including constraints) with (autovacuum_vacuum_insert_threshold = 1000000)', v_name);
      execute format('alter table pgrab.run attach partition pgrab.%I for values from (%L) to (%L)', v_name, v_day::timestamptz, (v_day + 1)::timestamptz);
      execute format('comment on table pgrab.%I is %L', v_name, 'History of ' || v_day || '; see pgrab.run.');
      what := 'made'; partition := v_name;
      return next;
    end if;
  end loop;
  for v_name in
    select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'pgrab.run'::regclass and c.relname ~ '^run_[0-9]{8}$'
      and to_date(substr(c.relname, 5), 'YYYYMMDD') + 1 <= (clock_timestamp() - p_retention)::date
    order by 1
  loop
    begin
      execute format('drop table pgrab.%I', v_name);
      what := 'dropped'; partition := v_name;
      return next;
    exception when lock_not_available then
      null; -- a long reader holds it; the next round tries again
    end;
  end loop;
  perform pgrab_internal.chains_end(array(select c.id from pgrab.chain c where c.root is null)); -- those whose last two links ended at the same moment
end $$;
comment on function pgrab.upkeep(interval, integer) is
  'Makes the coming daily partitions of the history and drops those older than the retention. Nodes call it; '
  'calling it by hand does no harm.';
