-- Which steps the fire of a run has done already, and what one of them has printed.
-- Serves: sql executor.  Plan: task_pkey, step_pkey.  $1 id, $2 version, $3 incarnation, $4 name of the last
-- step.
select s.name, case when s.name = $4 then s.result #>> '{}' end
from pgrab.task t join pgrab.step s on s.task_id = t.id and s.fire_at = t.fire_at
where t.id = $1::bigint and t.version = $2::bigint and t.incarnation = $3::bigint
