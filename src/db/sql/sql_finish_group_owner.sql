-- Like sql_finish_group.sql, on a connection of the tasks' owner.
-- Serves: sql executor.  $1 ids, in order, $2 versions, $3 us since each start, $4 us since each end, $5
-- outputs, $6 cut?, $7 proofs.
select pgrab_sql.finish_runs($1::pg_catalog.int8[], $2::pg_catalog.int8[], $7::pg_catalog.text[],
  $3::pg_catalog.int8[], $4::pg_catalog.int8[], $5::pg_catalog.text[], $6::pg_catalog.bool[])
