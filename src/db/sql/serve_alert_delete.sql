-- Serves: DELETE /api/v1/alerts/NAME.  $1 name.
select row_to_json((select x from (
    select a.name, a.events, a.after, a.schedule, a.timezone, a.owner, a.task_like, a.source, a.node_like,
      a.template, a.enabled, a.set_by) x))
from pgrab.alert a where a.name = $1::text and pgrab.delete_alert(a.name)
