-- Could a commit that was acknowledged be lost?  Then at_most_once cannot be promised.  Serves: register and every reconnect of the loader.
select current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on' and current_setting('synchronous_commit') <> 'off'
  and (current_setting('synchronous_commit') in ('on', 'remote_apply') or current_setting('synchronous_standby_names') = '')
