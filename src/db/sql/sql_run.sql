-- A statement of the task.  Serves: sql executor.  $1 statement.
select pgrab_sql.run($1)
