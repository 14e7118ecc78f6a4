-- Which server answers: its identity, its timeline, and whether a commit that it acknowledges is on a
-- standby, too.
-- Serves: heartbeat, on every new connection.
select (select s.system_identifier from pg_control_system() s),
  case when pg_is_in_recovery() then '' else left(pg_walfile_name(pg_current_wal_lsn()), 8) end,
  current_setting('synchronous_standby_names') <> ''
    and current_setting('synchronous_commit') in ('on', 'remote_apply')
