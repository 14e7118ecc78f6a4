-- Schedules, and what people ask of running tasks and of nodes.
-- Breaking: yes.  A node that does not know schedules would drop the result of a recurring task as stale.

alter table pgrab.task add column fires bigint not null default 0;
comment on column pgrab.task.fires is 'System: fires that have been carried out, whatever their outcome; max_runs counts these.';

-- A run can only be stopped by the node that has it, and the finish has to find the row as the run left it.  So the wish stands beside the task: the node reads it with its
-- heartbeat, and whoever ends the run (its node, or the one that finds it dead) sees that it is not to be tried again.
create table pgrab.cancel (
  task_id     bigint      not null,
  version     bigint      not null,
  incarnation bigint      not null,
  asked_at    timestamptz not null default clock_timestamp(),
  asked_by    text        not null default session_user,
  constraint cancel_pkey primary key (task_id)
);
comment on table pgrab.cancel is 'Runs that are to be stopped: written by pgrab.cancel(), read by the node that has the run, gone when the run has ended.';
comment on column pgrab.cancel.task_id is 'The task.';
comment on column pgrab.cancel.version is 'Its version during this run; a later run is not meant.';
comment on column pgrab.cancel.incarnation is 'Who runs it.';
comment on column pgrab.cancel.asked_at is 'When it was asked for.';
comment on column pgrab.cancel.asked_by is 'By whom.';

alter table pgrab.node add column drain boolean not null default false;
comment on column pgrab.node.drain is 'True: a person wants it to take no new tasks, see pgrab.drain(). Stands over restarts, until pgrab.undrain().';
