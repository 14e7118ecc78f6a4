-- In the transaction of a sql task: its backend notices when its node has gone.  Returns who it is, should it
-- have to be ended.  Serves: sql executor.
select pg_catalog.pg_backend_pid(), pg_catalog.now(),
  pg_catalog.set_config('client_connection_check_interval', '1s', true),
  pg_catalog.set_config('idle_in_transaction_session_timeout', '60s', true)
