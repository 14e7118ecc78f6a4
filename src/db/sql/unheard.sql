-- Which transactions may have inserted a task that nobody was rung for, because no node wanted the bell then:
-- they hold the lock of an INSERT or UPDATE on pgrab.task.  A transaction that gets it later sees that the
-- bell is wanted, and rings (pgrab_internal.ring).
-- Serves: loader, before it looks less often than `poll`.  It reads the server's locks, no table.
-- $1 only which of these still do; null: any.
select coalesce(array_agg(distinct l.virtualtransaction), '{}') as unheard
from pg_locks l
where l.locktype = 'relation' and l.relation = 'pgrab.task'::regclass and l.mode = 'RowExclusiveLock'
  and l.database = (select d.oid from pg_database d where d.datname = current_database())
  and (l.virtualtransaction = any ($1::text[]) or $1::text[] is null)
