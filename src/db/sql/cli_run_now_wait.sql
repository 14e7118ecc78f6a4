-- Serves: pgrab run-now --wait.  Like cli_run_now; says how many fires there have been before this one.
-- $1 ids, keys, names.
select t.id, t.fires from pgrab.run_now($1::text[]) t
