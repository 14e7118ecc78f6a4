-- Which of these rows, all claimed or running, can be worked on at once?  Those that somebody else has locked
-- (a person's open transaction) are passed by.
-- Serves: loader, starter, finisher, by way of src/db/row_lock.c, after a statement for many rows gave up
-- waiting for one.  In a transaction: the locks stay until its end.
-- $1 ids, $2 versions, in the order in which rows are locked.  Rows that are not what they were are not in
-- the answer.
select t.id, t.version, l.id is not null as free
from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
join pgrab.task t on t.id = any (array[c.id]) and t.version = c.version
left join lateral (select x.id from pgrab.task x where x.id = any (array[t.id]) for update skip locked) l
  on true
