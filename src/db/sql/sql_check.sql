-- The fence, before the work: is this run still ours?  Only read: a lock held for the length of the task would keep people from editing it; the finish,
-- in the same transaction, is the check that counts.
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation.
select 1 from pgrab.task t where t.id = $1::bigint and t.version = $2::bigint and t.incarnation = $3::bigint and t.status = 'running'
