-- After a task's text: nothing that it may have left in the session is there for the next one.  DISCARD ALL
-- without DISCARD PLANS: plans are nobody's state, and to make those of the finish anew costs more than the
-- finish.
-- Serves: sql executor.
close all;
set session authorization default;
reset all;
deallocate all;
unlisten *;
select pg_advisory_unlock_all();
discard temp;
discard sequences
