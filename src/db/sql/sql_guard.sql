-- In the transaction of a sql task: its backend notices when its node has gone, and bears the name by which
-- others end it when the node is dead; behind a pooler that may be what a text before has made of it.
-- Returns who it is, should it have to be ended.  Serves: sql executor.  $1 incarnation.
select pg_catalog.pg_backend_pid(), pg_catalog.now(),
  pg_catalog.set_config('application_name', 'pgrab sql ' || $1::pg_catalog.text, true),
  pg_catalog.set_config('client_connection_check_interval', '1s', true),
  pg_catalog.set_config('idle_in_transaction_session_timeout', '60s', true)
