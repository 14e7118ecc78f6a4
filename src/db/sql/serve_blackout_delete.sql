-- Serves: DELETE /api/v1/blackouts/NAME.  $1 name.
select row_to_json((select x from (
    select b.name, b.during, b.schedule, b.lasts, b.timezone, b.task_like, b.source, b.owner, b.action,
      b.note, b.set_by) x))
from pgrab.blackout b where b.name = $1::text and pgrab.delete_blackout(b.name)
