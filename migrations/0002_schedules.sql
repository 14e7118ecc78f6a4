-- Schedules, and what people ask of running tasks and of nodes.
-- Breaking: yes.  A node that does not know schedules would drop the result of a recurring task as stale.

-- Its body knows the columns of the table, which could not be changed under it; it comes back with the other functions.
drop function if exists pgrab.definition(pgrab.task);

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

-- Not in pgrab.node: a person's transaction that is left open would hold that row locked, no heartbeat would get through, and the node would have to stop its runs.
create table pgrab.drained (
  node_id  bigint      not null,
  asked_at timestamptz not null default clock_timestamp(),
  asked_by text        not null default session_user,
  constraint drained_pkey primary key (node_id)
);
comment on table pgrab.drained is 'Nodes that take no new tasks because a person wants it so: written by pgrab.drain(), read by the node with its heartbeat, gone with pgrab.undrain(). Stands over restarts.';
comment on column pgrab.drained.node_id is 'The node.';
comment on column pgrab.drained.asked_at is 'Since when.';
comment on column pgrab.drained.asked_by is 'Who wants it.';

-- Priority.  Each priority is a lane of its own, first come first: a look reads the head of every lane and compares priority against waiting.  One index over all would have a
-- million unimportant old rows before the important new one.  Nearly all tasks have priority 0, and stay in the index by shard.
drop index pgrab.task_due_idx;
create index task_due_idx on pgrab.task (shard, due_at) where due_at is not null and priority = 0;
create index task_lane_idx on pgrab.task (priority, due_at) where due_at is not null and priority <> 0;
comment on index pgrab.task_due_idx is 'What is due, by shard: the loaders'' scan. Tasks that cannot run now have no due_at and are not in it.';
comment on index pgrab.task_lane_idx is 'What is due and has a priority, a lane for each.';
comment on column pgrab.task.priority is 'Among due tasks the higher goes first. Waiting raises it by one every 10 seconds, so nothing starves.';

-- Limits.  A place under a limit is a row: no counter that a crash leaves wrong, and no row that tasks of other keys would wait for.
create table pgrab.limit (
  key         text not null,
  max_running integer,
  per_second  double precision,
  constraint limit_pkey primary key (key),
  constraint limit_key_check check (key <> '' and octet_length(key) <= 1000),
  constraint limit_max_running_check check (max_running >= 0),
  constraint limit_per_second_check check (per_second > 0 and per_second <= 100000),
  constraint limit_some_check check (num_nonnulls(max_running, per_second) > 0)
);
comment on table pgrab.limit is 'How many tasks of one limit_key may run at the same time, and how many may start per second, over all nodes. pgrab.limits shows how they are used.';
comment on column pgrab.limit.key is 'The word for pgrab.task.limit_key.';
comment on column pgrab.limit.max_running is 'At most so many run at once; 0 stops them all. Null: no such limit.';
comment on column pgrab.limit.per_second is 'At most so many start within any one second; 0.1 is one in ten seconds. Null: no such limit.';

create table pgrab.limit_place (
  key     text        not null,
  task_id bigint      not null,
  at      timestamptz not null,
  started boolean     not null,
  over    boolean     not null default false
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
create index limit_place_key_idx on pgrab.limit_place (key, at);
create index limit_place_task_idx on pgrab.limit_place (task_id);
comment on table pgrab.limit_place is 'Internal: places under limits. Taken before the start, given back with the finish, in its transaction.';
comment on index pgrab.limit_place_key_idx is 'The latest starts of a key.';
comment on index pgrab.limit_place_task_idx is 'The place of a task.';
comment on column pgrab.limit_place.key is 'Of which limit.';
comment on column pgrab.limit_place.task_id is 'Who has it.';
comment on column pgrab.limit_place.at is 'When it started, or may start.';
comment on column pgrab.limit_place.started is 'False: kept for a task that waited in line and is due at `at`.';
comment on column pgrab.limit_place.over is 'True: the run has ended; the row still counts for per_second.';

-- Serves: pgrab.limit_wake, pgrab.late.  Tasks that wait for a place have no due_at; they stand in line here.
create index task_line_idx on pgrab.task (limit_key, priority, fire_at) where due_at is null and limit_key is not null;
comment on index pgrab.task_line_idx is 'Who waits for a place under a limit.';
