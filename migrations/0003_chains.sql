-- Chains: tasks that start when others have ended.
-- Breaking: yes.  A node that does not know chains would end a parent without releasing its children.

alter table pgrab.task
  add column chain bigint,
  add column needs integer,
  add column met   integer,
  drop constraint task_status_check,
  add constraint task_status_check check (status in ('waiting', 'scheduled', 'claimed', 'running', 'parked', 'done', 'cancelled', 'skipped'));
comment on column pgrab.task.parent_id is 'This task is a link of its parent''s chain: it starts when the parent has ended as run_if says. More parents: pgrab.edge.';
comment on column pgrab.task.status is 'System: waiting (for parents), scheduled, claimed (a node holds it, not started), running, parked (out of attempts, waiting for a person); done, cancelled, skipped: a link of a chain that is still under way has ended so.';
comment on column pgrab.task.chain is 'System: the chain it is a link of, pgrab.chain.id. Null: on its own.';
comment on column pgrab.task.needs is 'System: parents that have still to end in this run of the chain. Null: it takes no part in it (any more).';
comment on column pgrab.task.met is 'System: parents that have ended in this run of the chain and were not skipped.';

-- Serves: pgrab.chain_end and what a person does to a whole chain.  Written only when the graph changes.
create index task_chain_idx on pgrab.task (chain) where chain is not null;
-- Serves: pgrab.chain_advance (the children of a parent that has ended).
create index task_parent_idx on pgrab.task (parent_id) where parent_id is not null;
comment on index pgrab.task_chain_idx is 'The links of a chain.';
comment on index pgrab.task_parent_idx is 'The children of a task.';

create table pgrab.edge (
  parent_id bigint not null,
  child_id  bigint not null,
  run_if    text   not null default 'success',
  constraint edge_pkey primary key (parent_id, child_id),
  constraint edge_run_if_check check (run_if in ('success', 'failure', 'always'))
);
create index edge_child_idx on pgrab.edge (child_id);
comment on table pgrab.edge is 'Further parents of tasks (the first may be pgrab.task.parent_id): a task starts once when all its parents have ended as asked. Insert and delete rows; no foreign keys, so that independent tasks pay nothing: triggers keep it whole.';
comment on index pgrab.edge_child_idx is 'The parents of a task.';
comment on column pgrab.edge.parent_id is 'The task that has to end.';
comment on column pgrab.edge.child_id is 'The task that waits for it.';
comment on column pgrab.edge.run_if is 'Which end of the parent: success, failure, always.';

create sequence pgrab.chain_run_seq;
comment on sequence pgrab.chain_run_seq is 'Numbers of chain runs: pgrab.run.chain_id.';
create table pgrab.chain (
  id      bigint  generated always as identity,
  root    bigint,
  run     bigint  not null default nextval('pgrab.chain_run_seq'),
  pending integer not null,
  constraint chain_pkey primary key (id),
  constraint chain_pending_check check (pending >= 0)
) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table pgrab.chain is 'One row per chain (tasks that hang together): the run it is in. Its row is the lock under which the run is ended. For people: pgrab.chains, pgrab.chain_runs.';
comment on column pgrab.chain.id is 'Number of the chain: pgrab.task.chain.';
comment on column pgrab.chain.root is 'The root that has a schedule; null: the chain runs once.';
comment on column pgrab.chain.run is 'Number of the run it is in, or comes to next: pgrab.run.chain_id.';
comment on column pgrab.chain.pending is 'Links that have not ended in this run.';

create table pgrab.edge_change (
  chain     bigint  not null,
  parent_id bigint  not null,
  child_id  bigint  not null,
  run_if    text    not null,
  added     boolean not null
);
create index edge_change_parent_idx on pgrab.edge_change (parent_id);
create index edge_change_child_idx on pgrab.edge_change (child_id);
comment on table pgrab.edge_change is 'Internal: edges added to and taken from a recurring chain while it runs. The run goes by the graph it began with; gone when it has ended.';
comment on index pgrab.edge_change_parent_idx is 'The changes below a parent that has ended.';
comment on index pgrab.edge_change_child_idx is 'The changes above a link that starts.';
comment on column pgrab.edge_change.chain is 'The chain.';
comment on column pgrab.edge_change.parent_id is 'Parent of the edge.';
comment on column pgrab.edge_change.child_id is 'Child of the edge.';
comment on column pgrab.edge_change.run_if is 'Its condition.';
comment on column pgrab.edge_change.added is 'True: it does not count in this run. False: it still does.';

-- Serves: pgrab.chain_runs, parent outputs.
create index run_chain_idx on pgrab.run (chain_id) where chain_id is not null;
comment on index pgrab.run_chain_idx is 'The runs of one run of a chain.';
