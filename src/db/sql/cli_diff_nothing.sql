-- Serves: pgrab diff, when there is no change to show: what that means.  $1 id, key or name, $2 since (null:
-- all).  Edits are kept of schedules and of tasks that have run (definition_edited()).
select case when $2::text is not null then 'no change is kept since then'
    when t.id is not null and (t.updated_at = t.created_at or t.schedule is not null or d.kept)
      then 'its definition has not changed'
    when t.id is not null then 'no change is kept: edits of a task that runs once count from its first run on'
    else 'no change is kept: it is not live any more, and nothing says that it was edited' end
from (select pgrab_tool.defined_id($1::text) as id) i left join pgrab.task t on t.id = i.id
  cross join lateral (select exists (select from pgrab.definition x where x.task_id = i.id) as kept) d
