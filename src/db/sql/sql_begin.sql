-- Opens the transaction of a sql task.  Serves: sql executor.  The interval lets a backend notice that its
-- node has gone.
begin isolation level read committed;
set local client_connection_check_interval = '1s';
set local idle_in_transaction_session_timeout = '60s'
