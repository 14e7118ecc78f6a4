-- Serves: the page History, when it is searched by a name.  The live tasks that are called exactly so, two at
-- most.  Plan: task_name_idx.  $1 name.
select t.id from pgrab.task t where t.name = $1::text limit 2
