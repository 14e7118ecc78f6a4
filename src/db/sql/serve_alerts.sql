-- Serves: GET /api/v1/alerts.
select a.name, a.events, a.after, a.schedule, a.timezone, a.owner, a.task_like, a.source, a.node_like,
  a.template, a.enabled, a.set_by
from pgrab.alert a order by a.name
