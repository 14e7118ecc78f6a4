-- Between a task's text and its finish.  Returns null when the session is clean for the next task; otherwise
-- see pgrab_sql.clean().  Not prepared, because the text may have dropped its name.
-- Serves: sql executor.  $1 incarnation.
select pgrab_sql.settle(pg_catalog.concat('pgrab sql ', $1::pg_catalog.text))
