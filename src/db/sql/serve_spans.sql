-- Serves: pgrab serve --otlp.  The next runs as spans, and where the next look begins.
-- $1, $2, $3 where the last one ended (null: only say where to begin), $4 older ones are dropped, $5 how
-- many.
-- Plan: run_finished_idx from there, at most $5 rows.
select s.at, s.id, s.version, s.dropped, s.runs, s.spans,
  extract(epoch from statement_timestamp() - s.at)::float8 as behind
from pgrab_tool.spans($1::timestamptz, $2::bigint, $3::bigint, $4::interval, $5::integer) s
