-- The finish, in the transaction of the work; an error when the run is no longer ours.  The settings of
-- sql_open.sql are made again, because the text may have changed them.  Then the session is cleaned for the
-- next task; false: that is uncertain (clean()).
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation, $4 us since the start, $5 output, $6 cut?, $7
-- node, $8 its name.
select :sql_guard,
  pgrab_internal.finish_run($1::bigint, $2::bigint, $3::bigint, $4::bigint, $5, $6::boolean, $7::bigint, $8),
  pgrab_sql.clean()
