-- Serves: PUT /api/v1/alerts/NAME.  $1 name, $2 the other columns; those left out get their defaults.
insert into pgrab.alert as a (name, events, after, schedule, timezone, owner, task_like, source, node_like,
  template, enabled)
select $1::text, coalesce(x.events, '{failed,parked,recovered}'), x.after, x.schedule,
  coalesce(x.timezone, 'UTC'), x.owner, x.task_like, x.source, x.node_like, x.template,
  coalesce(x.enabled, true)
from jsonb_to_record($2::jsonb) x(
  events text[], after interval, schedule text, timezone text, owner text, task_like text, source text,
  node_like text, template jsonb, enabled boolean)
on conflict (name) do update set events = excluded.events, after = excluded.after,
  schedule = excluded.schedule, timezone = excluded.timezone, owner = excluded.owner,
  task_like = excluded.task_like, source = excluded.source, node_like = excluded.node_like,
  template = excluded.template, enabled = excluded.enabled
returning row_to_json((select x from (
    select a.name, a.events, a.after, a.schedule, a.timezone, a.owner, a.task_like, a.source, a.node_like,
      a.template, a.enabled, a.set_by) x))
