-- Which of these rows, all claimed or running, are free?  Rows that another session has locked (a user's open
-- transaction) are skipped.
-- Serves: loader, starter, finisher, by way of src/db/row_lock.c, after a statement for many rows gave up
-- waiting for one.  In a transaction: the locks stay until its end.
-- $1 ids, $2 versions, in the order in which rows are locked.  Rows with another version are left out.
select t.id, t.version, l.id is not null as free
from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
join pgrab.task t on t.id = any (array[c.id]) and t.version = c.version
left join lateral (select x.id from pgrab.task x where x.id = any (array[t.id]) for update skip locked) l
  on true
