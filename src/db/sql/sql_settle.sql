-- Between a task's text and its finish.  Serves: sql executor.
select pgrab_sql.settle()
