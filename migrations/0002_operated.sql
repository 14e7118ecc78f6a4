-- What operating needs: alerts and incidents, the switch for all, tasks of which a success is expected.
-- Breaking: no.

create table pgrab.cluster (
  only_row  boolean     not null default true,
  paused    boolean     not null default false,
  paused_at timestamptz,
  paused_by text,
  constraint cluster_pkey primary key (only_row),
  constraint cluster_only_row_check check (only_row)
);
comment on table pgrab.cluster is
  'What holds for all nodes: one row. Written by pgrab.pause_all() and pgrab.resume_all().';
comment on column pgrab.cluster.only_row is 'Always true: there is one row.';
comment on column pgrab.cluster.paused is 'True: no node takes any task. What runs goes on.';
comment on column pgrab.cluster.paused_at is 'Since when.';
comment on column pgrab.cluster.paused_by is 'Who wants it.';
insert into pgrab.cluster default values;

create table pgrab.alert (
  name      text    not null,
  events    text[]  not null default '{failed,parked,recovered}',
  owner     text,
  task_like text,
  source    text,
  template  jsonb   not null,
  enabled   boolean not null default true,
  set_by    text    not null default current_user,
  constraint alert_pkey primary key (name),
  constraint alert_name_check check (octet_length(name) between 1 and 1000),
  constraint alert_events_check check (
    events <@ '{failed,parked,recovered,late}' and cardinality(events) > 0
    and array_position(events, null) is null)
);
comment on table pgrab.alert is
  'Whom to tell about which tasks: each row inserts a task, once when a task begins to fail and once when it '
  'has recovered. A task of its own: pgrab.task.on_failure. See docs/alerts.md.';
comment on column pgrab.alert.name is 'Name of the alert.';
comment on column pgrab.alert.events is
  'When: failed (a fire of a schedule or a chain has failed for good), parked (the task waits for a person), '
  'recovered (a success after either, or after late), late (no success within expect_within).';
comment on column pgrab.alert.owner is 'Only tasks of this owner. Null: of any.';
comment on column pgrab.alert.task_like is
  'Only tasks whose name (or key, when there is none) is LIKE this. Null: any.';
comment on column pgrab.alert.source is 'Only tasks of this source. Null: of any.';
comment on column pgrab.alert.template is
  'The task to insert, a JSON object of columns of pgrab.task: kind, command, args and so on. It is given the'
  ' facts as its parameters.';
comment on column pgrab.alert.enabled is 'False: it tells nobody.';
comment on column pgrab.alert.set_by is 'Who made it; owner of the tasks it inserts.';

-- One row from the first failure to the next success, so that a failure is told of once, and how long it has
-- lasted is known without reading the history.  Plain one-shot tasks of which nobody is told have none: they
-- are parked, and that says as much.
create table pgrab.incident (
  task_id      bigint      not null,
  event        text        not null,
  since        timestamptz not null,
  failures     bigint      not null default 1,
  succeeded_at timestamptz,
  fault        text,
  constraint incident_pkey primary key (task_id),
  constraint incident_event_check check (event in ('failed', 'parked', 'late'))
) with (fillfactor = 70);
comment on table pgrab.incident is
  'Tasks whose last fire did not succeed, or that are late. Read it through pgrab.failing and pgrab.overdue.';
comment on column pgrab.incident.task_id is 'The task.';
comment on column pgrab.incident.event is 'What it began with: failed, parked, late.';
comment on column pgrab.incident.since is 'When it began.';
comment on column pgrab.incident.failures is 'Fires that have failed since.';
comment on column pgrab.incident.succeeded_at is 'When the task last succeeded before that. Null: never.';
comment on column pgrab.incident.fault is 'Why an alert could not be inserted. Null: all is well.';

-- Serves: pgrab.overdue.  No column of it is written by claim, start or finish.
create index task_expect_idx on pgrab.task (id) where expect_within is not null;
comment on index pgrab.task_expect_idx is 'Tasks of which a success is expected.';
