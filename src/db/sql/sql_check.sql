-- The fence, before the work: is this run still ours?  An error when not, so that nothing after it is
-- executed.  Only read: a lock held for the length of the task would keep people from editing it; the finish,
-- in the same transaction, is the check that counts.
-- Serves: sql executor.  $1 id, $2 version, $3 incarnation.
select pgrab_internal.check_run($1::bigint, $2::bigint, $3::bigint)
