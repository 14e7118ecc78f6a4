-- Could a start that was acknowledged be lost?  Null: no, and at_most_once can be promised; otherwise, why.
-- (Starts of such tasks set synchronous_commit themselves: store_start_once.)  An asynchronous standby may be
-- promoted without the last commits; one that is disconnected still has its slot.  Logical replicas are not
-- promoted.
-- Serves: register, loader, starter.  $1 are asynchronous standbys accepted?
select case
  when current_setting('fsync') <> 'on'
    then 'fsync is off: a crash of the server may lose what it acknowledged'
  when $1::boolean or current_setting('synchronous_standby_names') <> '' then null
  when exists (select from pg_replication_slots s where s.slot_type = 'physical')
    or exists (
      select from pg_stat_replication r
      where r.application_name is distinct from 'pg_basebackup'
        and r.application_name is distinct from 'pg_receivewal'
        and not exists (
          select from pg_replication_slots s where s.active_pid = r.pid and s.slot_type = 'logical'))
    then 'an asynchronous standby is attached: when promoted, it may lack commits that were acknowledged'
      || ' (set synchronous_standby_names on the server, or at_most_once_async = yes for this node)'
end
