-- The structure: tasks, their history, nodes, limits, chains.
-- Breaking: yes.
--
-- Why one wide table.  Users insert into pgrab.task, in any language, so it has to be a real table with
-- everything in it.  The order of the columns follows their cost.  An UPDATE compares each indexed column of
-- the old row with the new one, and walks to it over all that stand before it: those that most tasks have
-- come first.  What a claim writes stands together, because only what lies between the first change and the
-- last goes into the WAL.  Claim, start and finish change no indexed column, so they are HOT updates: no
-- index is written.  A task that cannot run now (parked, paused, waiting, in line) has no due_at and is in no
-- index of due tasks.
--
-- No BEFORE UPDATE trigger for each row: with one, PostgreSQL locks each row before changing it, and every
-- claim would pay for that.  No generated column: from PostgreSQL 16 on, an UPDATE that changes nothing of
-- what it is made of reads its expression anew for each row.  Which lane and shard a task is in, only the
-- index of due tasks writes down.

-- What is true of every row of pgrab.task.  PostgreSQL keeps the checks of a domain as long as a session
-- lasts; it reads those of a table anew for each statement that writes to it, which for a single INSERT took
-- longer than writing the row.
create type pgrab_internal.state as (
  -- first what is not null and of fixed width, because that is found at once
  version       bigint,
  runs          bigint,
  fires         bigint,
  attempt       integer,
  misfire_limit integer,
  due_at        timestamptz,
  fire_at       timestamptz,
  status        text,
  node_id       bigint,
  incarnation   bigint,
  claimed_at    timestamptz,
  started_at    timestamptz
);
comment on type pgrab_internal.state is 'Where a task stands: columns of pgrab.task.';
-- Every UPDATE of a task asks this: so what most of them write comes first, and each column is asked for once
-- where that is possible (BETWEEN does it twice).
create domain pgrab_internal.sound_state as pgrab_internal.state
  constraint task_status_check check ((value).status in (
    'running', 'scheduled', 'claimed', 'waiting', 'parked', 'done', 'cancelled', 'skipped'))
  -- one that waits and names a run waits for the answer to it, see 57_answer.sql
  constraint task_owned_check check (case (value).status
    when 'running' then num_nulls((value).node_id, (value).incarnation) = 0
    when 'claimed' then num_nulls((value).node_id, (value).incarnation) = 0
    when 'waiting' then num_nulls((value).node_id, (value).incarnation) <> 1
    else num_nulls((value).node_id, (value).incarnation) > 0 end)
  constraint task_due_check check (
    (value).due_at is null or (value).status in ('running', 'scheduled', 'claimed'))
  -- A single row with a time that nodes cannot calculate with would stop all of them.
  constraint task_times_check check (isfinite((value).due_at) and isfinite((value).fire_at)
    and isfinite((value).claimed_at) and isfinite((value).started_at))
  -- from 0 to 2^62 - 1; a number below zero has the first bit, and then so has what it is or-ed with
  constraint task_numbers_check check (((value).version | (value).runs | (value).fires) >> 62 = 0
    and (value).attempt between 0 and 1000000 and (value).misfire_limit between 0 and 100000);
comment on domain pgrab_internal.sound_state is 'A state in which a task may be.';

create table pgrab.task (
  id               bigint      generated always as identity,
  -- what the indexes are made of, as far as most tasks have it: each UPDATE of a row looks for it
  slots            integer     not null default 1,
  priority         smallint    not null default 0,
  paused           boolean     not null default false,
  preemptible      boolean     not null default false,
  kind             text        not null default 'sql',
  delivery         text        not null default 'at_least_once',
  owner            text        not null default current_user,
  require          jsonb       not null default '{}',
  args             jsonb       not null default '{}',
  key              text,
  name             text,
  -- written by users, of fixed width
  timeout          interval    not null default '1 hour',
  misfire_after    interval    not null default '1 minute',
  backoff          interval    not null default '5 s',
  backoff_max      interval    not null default '1 hour',
  jitter           interval    not null default '0',
  run_at           timestamptz not null default now() + interval '1 us',
  created_at       timestamptz not null default current_timestamp,
  max_attempts     integer     not null default 3,
  misfire_limit    integer     not null default 100,
  -- written by the system: by a claim from version to status; of these due_at and fire_at are indexed
  due_at           timestamptz default now() + interval '1 us',
  fire_at          timestamptz default now() + interval '1 us',
  updated_at       timestamptz not null default current_timestamp,
  runs             bigint      not null default 0,
  fires            bigint      not null default 0,
  failures         bigint      not null default 0,
  version          bigint      not null
    default (date_part('epoch', current_timestamp) * float8 '1e6')::bigint,
  incarnation      bigint,
  node_id          bigint,
  claimed_at       timestamptz,
  started_at       timestamptz,
  attempt          integer     not null default 0,
  settled          boolean     not null default false,
  status           text        not null default 'scheduled',
  -- written by the system when a run ends, or rarely
  last_finished_at timestamptz,
  succeeded_at     timestamptz,
  chain            bigint,
  needs            integer,
  met              integer,
  steps            integer,
  gave_way         interval,
  line             text,
  last_outcome     text,
  last_error       text,
  durations        bytea,
  -- written by users
  misfire          text        not null default 'once',
  schedule         text,
  limit_key        text,
  wait_for         text,
  stall_after      interval,
  command          text        not null default '',
  -- as traceparent_fine(): a setting that is no trace context keeps no task from being inserted
  traceparent      text        default case when current_setting('pgrab.traceparent', true)
      like '00-________________________________-________________-__'
    then substring(current_setting('pgrab.traceparent', true)
      from '^00-0*[1-9a-f][0-9a-f]*-0*[1-9a-f][0-9a-f]*-[0-9a-f]+$') end,
  share_key        text,
  prefer           jsonb,
  failover_after   interval,
  starts_at        timestamptz,
  ends_at          timestamptz,
  max_runs         integer,
  parent_id        bigint,
  batch            bigint,
  expect_within    interval,
  slow_after       interval,
  keep             interval,
  wait_timeout     interval,
  run_if           text        not null default 'success',
  on_closed        text        not null default 'skip',
  timezone         text        not null default 'UTC',
  calendar         text,
  signal_by        text,
  source           text        not null default '',
  on_failure       jsonb,
  constraint task_pkey primary key (id),
  constraint task_key_key unique (key),
  constraint task_state_check check (
    row(version, runs, fires, attempt, misfire_limit, due_at, fire_at, status, node_id, incarnation,
      claimed_at, started_at)::pgrab_internal.sound_state is distinct from null)
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0
);
comment on table pgrab.task is
  'Tasks: what to run and when. Insert a row, in your own transaction; a node runs it. A one-shot task leaves'
  ' this table when it has ended: see pgrab.tasks (live and finished) and pgrab.history.';
comment on column pgrab.task.id is 'Number of the task, assigned by the database.';
comment on column pgrab.task.version is
  'System: raised by every claim and every change of plan. (incarnation, version) is the fence that every '
  'later write must match. It starts with the time of the insert, so that it never repeats for an id.';
comment on column pgrab.task.incarnation is 'System: which start of that node.';
comment on column pgrab.task.node_id is
  'System: the node that holds it, or that has sent the request whose answer it waits for.';
comment on column pgrab.task.due_at is
  'System: when a node should look at it next: fire_at, or later if a retry is pending. Null: it cannot '
  'run now.';
comment on column pgrab.task.fire_at is
  'System: the planned time of the current fire; retries and recovery leave it alone.';
comment on column pgrab.task.claimed_at is 'System: when the node claimed it.';
comment on column pgrab.task.started_at is 'System: when the current or last run began.';
comment on column pgrab.task.last_finished_at is 'System: when the last run ended.';
comment on column pgrab.task.succeeded_at is 'System: when it last succeeded. Null: never.';
comment on column pgrab.task.runs is 'System: runs that have ended.';
comment on column pgrab.task.fires is
  'System: fires that have been carried out, whatever their outcome; max_runs counts these.';
comment on column pgrab.task.failures is 'System: runs that ended other than succeeded.';
comment on column pgrab.task.chain is
  'System: the chain it is a link of, as in pgrab.chain.chain. Null: none.';
comment on column pgrab.task.attempt is
  'System: attempts started for this fire. Counted at the start, so that a task that kills its node is '
  'parked in the end.';
comment on column pgrab.task.needs is
  'System: parents that have yet to end in this run of the chain. Null: it takes no part in this run, or '
  'has ended in it.';
comment on column pgrab.task.met is
  'System: parents that have ended in this run of the chain and were not skipped.';
comment on column pgrab.task.steps is
  'System: steps that the current fire has done, rows of pgrab.step. Null: none, and no signal but that of '
  'wait_for.';
comment on column pgrab.task.gave_way is
  'System: how long the runs of this fire had taken that were preempted. The next is not, before it has '
  'taken as long. Null: none.';
comment on column pgrab.task.status is
  'System: waiting (for parents, a signal, or an answer), scheduled, claimed (a node holds it and has not '
  'started it), running, parked (out of attempts, waiting for a person); done, cancelled, skipped: how a '
  'link of a running chain ended.';
comment on column pgrab.task.settled is
  'System: true: its missed fires have been settled; it keeps its place in the queue.';
comment on column pgrab.task.created_at is 'System: when the row was inserted.';
comment on column pgrab.task.updated_at is 'System: when a user last changed the definition.';
comment on column pgrab.task.priority is
  'Higher goes first, in bands: below 0, 0, 1 to 9, 10 to 99, 100 and above. A band is worth 15 minutes of '
  'waiting to the next lower one, so nothing waits longer than an hour behind more important work.';
comment on column pgrab.task.paused is
  'True: not started until this is false again. A run in progress continues.';
comment on column pgrab.task.preemptible is
  'May a run be stopped when work of a priority two bands higher has waited for a worker for preempt_after, '
  'a setting of the node? That costs no attempt.';
comment on column pgrab.task.max_attempts is
  'Attempts per fire. After the last one the task is parked, with the reason in last_error.';
comment on column pgrab.task.max_runs is 'The schedule ends after this many fires.';
comment on column pgrab.task.misfire_limit is
  'With misfire = all: at most this many catch-up runs; the rest are recorded as missed.';
comment on column pgrab.task.slots is
  'How many workers of its node it takes (or slots of http, or of a pool of handlers). A node that has '
  'fewer never takes it.';
comment on column pgrab.task.run_at is 'When it is (next) due. Default: now.';
comment on column pgrab.task.starts_at is 'The schedule does not fire before this.';
comment on column pgrab.task.ends_at is 'The schedule does not fire after this.';
comment on column pgrab.task.parent_id is
  'Makes this task a link of its parent''s chain: it starts when the parent has ended as run_if says. More '
  'parents: pgrab.edge.';
comment on column pgrab.task.batch is
  'Makes this task a member of a batch, a task of kind batch, which ends when it is sealed and its members '
  'have ended. It cannot be changed.';
comment on column pgrab.task.timeout is
  'A run is stopped after this: TERM, grace, KILL to everything it started; SQL is cancelled.';
comment on column pgrab.task.backoff is
  'Wait before attempt n+1: backoff * 2^(n-1), at most backoff_max, +-10 %.';
comment on column pgrab.task.backoff_max is 'Longest wait between two attempts.';
comment on column pgrab.task.misfire_after is 'A fire that could not start within this counts as missed.';
comment on column pgrab.task.jitter is
  'Each fire is delayed by a pseudo-random part of this, always the same for one task.';
comment on column pgrab.task.expect_within is
  'It should succeed at least this often; when it does not, pgrab.overdue lists it. Null: no expectation.';
comment on column pgrab.task.slow_after is
  'A run that takes longer than this is slow: alerts and digests tell of it. Null: one that takes longer '
  'than ten seconds and than three times what 95 % of its last 32 successes took, once there are five.';
comment on column pgrab.task.stall_after is
  'A run that shows no sign of life for this long (no output, no progress) is stopped, as timed_out. For a '
  'sql task that reports no progress it is a second timeout. Null: only `timeout` counts.';
comment on column pgrab.task.keep is
  'How long its history is kept, even after the task has ended. Null: as the nodes'' retention setting says.';
comment on column pgrab.task.wait_timeout is
  'When the signal has not come within this, counted from the planned time, the fire ends as timed_out. '
  'Null: it waits for ever.';
comment on column pgrab.task.kind is
  'What carries it out: sql, shell, exec, http, notify, noop, or the kind of a plug-in or a handler '
  '(pgrab.kind lists them all). A node runs only the kinds that its own `allow` setting names.';
comment on column pgrab.task.delivery is
  'at_least_once, or at_most_once: once started, it is never started again for that fire, whatever happens.';
comment on column pgrab.task.misfire is
  'What becomes of fires that no node could run in time: skip, once (one catch-up run), all.';
comment on column pgrab.task.run_if is 'Which outcome of the parent starts it: success, failure, always.';
comment on column pgrab.task.timezone is 'IANA time zone in which the schedule is read.';
comment on column pgrab.task.schedule is
  'Null: once. Otherwise cron (5 or 6 fields), @hourly and so on, @every 90s, @after 90s.';
comment on column pgrab.task.on_closed is
  'What becomes of a fire on a day that the calendar closes: skip (it is recorded as skipped), next or '
  'previous (it moves to the same local time of the next or previous open day).';
comment on column pgrab.task.calendar is
  'The calendar (pgrab.calendar) whose open days the schedule keeps to. Null: every day is open.';
comment on column pgrab.task.limit_key is 'Counts against the limit of that key.';
comment on column pgrab.task.wait_for is
  'Name of a signal: each fire of the task starts only after pgrab.signal() has sent it. Null: none.';
comment on column pgrab.task.signal_by is
  'A role whose members may send its signals, beside those who may control the task. Null: none.';
comment on column pgrab.task.share_key is
  'Whose it is: when more is due than can run, tasks with one key take turns with those of others, whatever '
  'their numbers. Null: it has no turns to take.';
comment on column pgrab.task.failover_after is
  'With prefer: how long after its time any other node may take it, too. Null: 30 s.';
comment on column pgrab.task.traceparent is
  'The trace (W3C) that its runs belong to, and the span that they are children of. Default: that of the '
  'setting pgrab.traceparent, if the task runs once; of a link, its parent''s. Null: none.';
comment on column pgrab.task.key is
  'At most one live task per key: insert ... on conflict (key) do update makes a file of tasks idempotent.';
comment on column pgrab.task.name is 'A label for readers; it need not be unique.';
comment on column pgrab.task.source is
  'Which file, team or tool it belongs to: a group to filter, pause and limit by.';
comment on column pgrab.task.owner is 'System: current_user of the insert.';
comment on column pgrab.task.require is
  'Only nodes whose labels contain this JSON object may run it, e.g. {"zone":"eu"}.';
comment on column pgrab.task.prefer is
  'Nodes whose labels contain this JSON object take it; others only when these have not within '
  'failover_after. Null: no node is preferred.';
comment on column pgrab.task.args is
  'Parameters of the kind, a JSON object. sql: params, steps; shell: env, stdin, cwd, umask; exec: argv, '
  'env, stdin, cwd, umask; http: method, headers, body, expect, follow, await; notify: payload.';
comment on column pgrab.task.on_failure is
  'A task to insert when a fire has failed for good: a JSON object of columns. Null: none.';
comment on column pgrab.task.command is
  'sql: the text; shell: a line for sh; exec: a program''s path; http: the URL; notify: the channel.';
comment on column pgrab.task.line is
  'System: the limit, or the quota, for which it waits in line. Null: for none.';
comment on column pgrab.task.last_outcome is 'System: outcome of the last run.';
comment on column pgrab.task.last_error is 'System: why the last run failed.';
comment on column pgrab.task.durations is
  'System: how long each of the last 32 runs that succeeded took, a byte each, the latest last; see '
  'pgrab_tool.usual().';

-- The lane and the shard of a task, of which three indexes are made: pgrab_tool.lane_of() and pgrab.shard(),
-- which PostgreSQL inlines; 11_task.sql says what they mean.  Nobody can choose an owner, and of kinds, bands
-- and so on there are few, so a quick hash will do for them.  What users write freely adds a wide
-- cryptographic one: nobody can get into the lane of others.  Each statement that writes tasks copies the
-- expression, once for each index that has it: it must be short.
do $$
declare
  c_lane constant text := $lane$
  (int8send(hashtextextended(kind, hashtextextended(owner,
      width_bucket(priority, '{-32768,0,1,10,100}') + 100::bigint * slots
      + case when delivery = 'at_least_once' then 0 else 10 end
      + case when share_key is null then 0 else 20 end)))
    || coalesce(substring(sha256(decode(replace(nullif(
      case when require = '{}' then '' else require::text end
      || coalesce(prefer::text || extract(epoch from coalesce(failover_after, '30 s'))::text, '')
      || case when kind in ('shell', 'exec') then coalesce(' memory ' || (args #>> '{limits,memory}'), '')
        else '' end, ''), '\', '\\'), 'escape')), 1, 16), ''))$lane$;
  c_shard constant text := '((hashint8extended(id, 0) & 1023)::smallint)';
begin
  -- Serves: look.sql, the loaders' only question: what is due in the lanes that this node may run and the
  -- shards that it owns.  Of the statements that change a task, only a retry changes one of these columns.
  execute format('create index task_due_idx on pgrab.task (%s, %s, due_at) where due_at is not null',
    c_lane, c_shard);
  -- Serves: pgrab.parked, pgrab.overview.  Its predicate names only due_at, which is in an index anyway: no
  -- HOT update is lost, and a task that runs when it is due never enters it.  By lane, because a lane may go
  -- when nothing stands in it; by shard for quota_tasks().
  execute format('create index task_idle_idx on pgrab.task (%s, %s) where due_at is null', c_lane, c_shard);
  -- Serves: look_turns.sql, from one key to the next.  Only tasks with a share_key pay for it.
  execute format('create index task_share_idx on pgrab.task (%s, share_key, %s, due_at) '
    'where share_key is not null and due_at is not null', c_lane, c_shard);
end $$;
comment on index pgrab.task_due_idx is
  'What is due, by lane and shard: the loaders scan it. Tasks that cannot run now have no due_at and are not '
  'in it.';
comment on index pgrab.task_idle_idx is 'What cannot run now: parked, paused, waiting; by lane.';
comment on index pgrab.task_share_idx is 'What is due of each share_key, by lane.';
-- Serves: limit_first(), pgrab.late.  Tasks that wait for a place have no due_at; this is their line, ordered
-- by the band of their priority (pgrab_internal.band).
create index task_line_idx on pgrab.task (line, width_bucket(priority, '{-32768,0,1,10,100}'), fire_at)
  where due_at is null and line is not null and not paused;
comment on index pgrab.task_line_idx is 'Tasks that wait in line for a limit or a quota.';
-- Serves: the end of a chain, and commands for a whole chain.  Written only when the graph changes.
create index task_chain_idx on pgrab.task (chain) where chain is not null;
comment on index pgrab.task_chain_idx is 'The links of a chain.';
-- Serves: chain_advance() (the children of a parent that has ended).
create index task_parent_idx on pgrab.task (parent_id) where parent_id is not null;
comment on index pgrab.task_parent_idx is 'The children of a task.';
-- Serves: batch_left(), pgrab.batches.  Claim, start and finish write neither column.
create index task_batch_idx on pgrab.task (batch, due_at) where batch is not null;
comment on index pgrab.task_batch_idx is 'The members of a batch; those that cannot run now last.';

-- The known lanes, so that a node finds those it may run without reading the tasks in them.  A trigger on
-- pgrab.task adds missing ones.  Not unique: an insert would have to wait for another session's uncommitted
-- row, and one open transaction would hold up every insert of its kind.  A duplicate lane does no harm.
create table pgrab.lane (
  id       bigint  generated always as identity,
  lane     bytea   not null,
  band     integer not null,
  owner    text    not null,
  kind     text    not null,
  require  jsonb   not null,
  delivery text    not null,
  prefer   jsonb,
  failover bigint,
  shared   boolean not null,
  slots    integer not null,
  memory   bigint,
  constraint lane_pkey primary key (id)
);
comment on table pgrab.lane is
  'Lanes of the due index: what tasks have in common that the same nodes can run and that are equally '
  'important. Kept by triggers.';
comment on column pgrab.lane.id is 'Number of the row, by which nodes name it.';
comment on column pgrab.lane.lane is
  'What stands for it in the due index: pgrab_tool.lane_of() of its tasks.';
comment on column pgrab.lane.band is 'The band of its tasks'' priority, from 1 (below zero) to 5.';
comment on column pgrab.lane.owner is 'Owner of its tasks.';
comment on column pgrab.lane.kind is 'Kind of its tasks.';
comment on column pgrab.lane.require is 'Labels they require.';
comment on column pgrab.lane.delivery is 'Their delivery.';
comment on column pgrab.lane.prefer is 'Labels of the nodes that they prefer. Null: none.';
comment on column pgrab.lane.failover is
  'With prefer: when other nodes may take them (us behind their time).';
comment on column pgrab.lane.shared is 'Do they take turns by share_key?';
comment on column pgrab.lane.slots is 'How many workers each of them takes.';
comment on column pgrab.lane.memory is
  'Bytes that each of them may use, of args.limits.memory. Null: they do not say.';
create index lane_owner_idx on pgrab.lane (owner, lane);
comment on index pgrab.lane_owner_idx is 'Is this lane known? How many has this owner?';

-- Each claim writes down the ids it took, and its row is deleted when the last of those tasks has ended.
-- Recovery finds what a dead node held by reading these rows, never by reading the due tasks.
create table pgrab.hold (
  incarnation bigint   not null,
  batch       bigint   not null,
  ids         bigint[] not null,
  constraint hold_pkey primary key (incarnation, batch)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.hold is
  'Which claim took which tasks. A row may name tasks that have ended since; the task itself says who holds '
  'it.';
comment on column pgrab.hold.incarnation is 'The incarnation that took them.';
comment on column pgrab.hold.batch is 'Number of the claim, counted by the node.';
comment on column pgrab.hold.ids is 'The tasks.';

create table pgrab.run (
  task_id          bigint      not null,
  version          bigint      not null,
  incarnation      bigint,
  node_id          bigint,
  chain_id         bigint,
  fire_at          timestamptz,
  claimed_at       timestamptz,
  started_at       timestamptz,
  finished_at      timestamptz not null,
  created_at       timestamptz not null,
  attempt          integer     not null,
  exit_code        integer,
  output_truncated boolean     not null default false,
  outcome          text        not null,
  ended            text,
  kind             text        not null,
  node             text,
  owner            text        not null,
  key              text,
  name             text,
  error            text,
  output           text,
  definition       jsonb,
  steps            jsonb,
  signals          jsonb,
  traceparent      text,
  cpu_seconds      real,
  memory_bytes     bigint,
  output_bytes     bigint,
  constraint run_outcome_check check (
    outcome in ('succeeded', 'failed', 'timed_out', 'cancelled', 'lost', 'skipped', 'missed', 'waited',
      'preempted')),
  constraint run_ended_check check (ended in ('done', 'cancelled', 'skipped'))
) partition by range (finished_at);
comment on table pgrab.run is
  'History: one row per attempt, written once, when the attempt ended. Daily partitions; retention drops '
  'whole partitions. Read it through pgrab.history.';
comment on column pgrab.run.task_id is 'The task.';
comment on column pgrab.run.version is 'The task''s version during this run.';
comment on column pgrab.run.incarnation is
  'Which start of that node; together with version, the fence of this run.';
comment on column pgrab.run.node_id is 'The node that ran it.';
comment on column pgrab.run.chain_id is 'Which chain run it belonged to.';
comment on column pgrab.run.fire_at is 'The planned time.';
comment on column pgrab.run.claimed_at is 'When the node claimed the task.';
comment on column pgrab.run.started_at is 'When the run began, on the database''s clock.';
comment on column pgrab.run.finished_at is 'When it ended, on the database''s clock.';
comment on column pgrab.run.created_at is 'When the task was inserted.';
comment on column pgrab.run.attempt is 'Which attempt at that fire, from 1.';
comment on column pgrab.run.exit_code is 'Exit status of the process, 128 + signal, or the HTTP status.';
comment on column pgrab.run.output_truncated is
  'True: the output was longer than 64 KiB; its middle is missing.';
comment on column pgrab.run.outcome is
  'succeeded, failed, timed_out, cancelled, lost (its node died or stopped), skipped, missed, waited (it '
  'ended to wait, and goes on in another run), preempted (it gave way to more important work).';
comment on column pgrab.run.ended is
  'Set when the task left pgrab.task with this run: done, cancelled, skipped.';
comment on column pgrab.run.kind is 'Kind of the task.';
comment on column pgrab.run.node is 'Name of the node.';
comment on column pgrab.run.owner is 'Owner of the task.';
comment on column pgrab.run.key is 'Key of the task.';
comment on column pgrab.run.name is 'Name of the task.';
comment on column pgrab.run.error is 'Why it did not succeed.';
comment on column pgrab.run.output is 'What it printed: at most 64 KiB, head and tail, made printable.';
comment on column pgrab.run.definition is
  'For the run that ended a task: the columns of its definition that were not the default.';
comment on column pgrab.run.traceparent is 'The trace (W3C) that it belonged to, as its task''s. Null: none.';
comment on column pgrab.run.cpu_seconds is
  'Processor time of all its processes: shell and exec. Null: not known.';
comment on column pgrab.run.memory_bytes is
  'The most memory that one of its processes had, or all of them at once where the node makes control '
  'groups: shell and exec. Null: not known.';
comment on column pgrab.run.output_bytes is
  'How much it printed, if not all of that is in output. Null: octet_length(output).';
comment on column pgrab.run.steps is
  'The steps that this attempt has done: [{"name": "charge", "finished_at": "2026-11-25T19:00:00Z"}, ...]. '
  'Null: none.';

-- A task has one fire at a time, and pgrab.task.steps says whether there is anything here: a task without
-- steps is never looked for.  Who writes here has the row of the task locked, and its fence checked.
create table pgrab.step (
  task_id     bigint      not null,
  fire_at     timestamptz not null,
  name        text        not null,
  result      jsonb,
  finished_at timestamptz not null default clock_timestamp(),
  version     bigint      not null,
  constraint step_pkey primary key (task_id, fire_at, name),
  constraint step_name_check check (octet_length(name) between 1 and 200)
) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.step is
  'What fires that are not over have done already, so that a later attempt need not do it again. When the '
  'fire is over its rows leave; pgrab.run.steps has their names and times.';
comment on column pgrab.step.task_id is 'The task.';
comment on column pgrab.step.fire_at is 'The fire: its planned time, as in pgrab.task.';
comment on column pgrab.step.name is 'The name by which a later attempt finds it.';
comment on column pgrab.step.result is
  'What it returned: the output of sql, the value of a handler''s function. At most 64 KiB.';
comment on column pgrab.step.finished_at is 'When it was recorded.';
comment on column pgrab.step.version is 'The task''s version during the run that did it, as in pgrab.run.';
comment on column pgrab.run.signals is
  'The signals of its fire that have come: [{"name", "payload", "role", "at"}].';

-- What tasks were before a user changed them.  The version of a run (pgrab.run.version) lies between two
-- rows, and the lower one is what it ran: so a run needs no reference, and a task that is never edited or
-- deleted has no row here at all.
create table pgrab.definition (
  task_id    bigint      not null,
  version    bigint      not null,
  since      timestamptz not null,
  until      timestamptz,
  role       text        not null,
  owner      text        not null,
  definition jsonb       not null,
  constraint definition_pkey primary key (task_id, version)
);
comment on table pgrab.definition is
  'Former definitions of tasks. A row is written when a schedule, or a task that has run, is edited or '
  'deleted, and is kept as long as a run refers to it. Read it through pgrab.definition_of() and '
  'pgrab.changes().';
comment on column pgrab.definition.task_id is 'The task.';
comment on column pgrab.definition.version is
  'Runs whose version (pgrab.run.version) is this or higher, up to the next row, had this definition.';
comment on column pgrab.definition.since is 'When it came into force.';
comment on column pgrab.definition.until is 'When it was replaced. Null: it is the last one.';
comment on column pgrab.definition.role is 'The role that made it so.';
comment on column pgrab.definition.owner is 'Owner of the task.';
comment on column pgrab.definition.definition is
  'Kind, name, and every column written by users that differs from its default, but not run_at and paused.';

-- For days without a partition.  It has a replica identity because its rows are moved; those of the daily
-- partitions rarely change.
create table pgrab.run_rest partition of pgrab.run default;
alter table pgrab.run_rest replica identity full;
comment on table pgrab.run_rest is
  'History of days that had no partition yet, for instance because no node was up: pgrab.upkeep() moves it.';

-- Serves: pgrab.tasks and `pgrab show ID`; the lookup of a finish whose reply was lost.
create index run_task_idx on pgrab.run (task_id);
comment on index pgrab.run_task_idx is 'Every attempt of one task.';
-- Serves: pgrab.history (newest first, without a sort), pgrab.overview.  Rows arrive almost in this order, so
-- they go to the rightmost page: 0.7 us a row.
create index run_finished_idx on pgrab.run (finished_at);
comment on index pgrab.run_finished_idx is 'The newest runs.';
-- Serves: pgrab.overview, and those who look for failures among many successes, which are not in it.
create index run_failed_idx on pgrab.run (finished_at) where outcome <> 'succeeded';
comment on index pgrab.run_failed_idx is 'The newest runs that did not succeed.';
-- Serves: pgrab.chain_runs, parent outputs.
create index run_chain_idx on pgrab.run (chain_id, task_id) where chain_id is not null;
comment on index pgrab.run_chain_idx is 'The runs of one run of a chain.';

-- Serves: pgrab_internal.runs_leave(), days_drop().  Empty as long as no task sets keep.
create index run_keep_idx on pgrab.run (finished_at) where definition ? 'keep';
comment on index pgrab.run_keep_idx is 'Last runs of tasks that said how long their history is kept.';

-- A node is what it said of itself when it registered, its last beat, and the weight that an operator may
-- have given it; pgrab.node (a view) puts them together.  They are separate tables because of who writes
-- them: a row that an operator's open transaction has locked must not be one that a heartbeat needs.
create table pgrab.registration (
  id              bigint generated always as identity,
  name            text             not null,
  host            text             not null,
  pid             integer          not null,
  pgrab_version   text             not null,
  strategy        text             not null,
  weight          double precision not null default 1,
  labels          jsonb            not null default '{}',
  kinds           text[]           not null default '{}',
  owners          text[]           not null default array[session_user::text],
  bounds          jsonb            not null default '{}',
  users           jsonb            not null default '{}',
  slots           integer          not null,
  heartbeat_every interval         not null,
  dead_after      interval         not null,
  started_at      timestamptz      not null,
  shards          bit(1024),
  overlapping     boolean          not null default false,
  down            boolean          not null default false,
  min_priority    smallint,
  room            jsonb            not null default '{}',
  memory          bigint,
  constraint registration_pkey primary key (id),
  constraint registration_name_key unique (name),
  constraint registration_weight_check check (weight >= 0 and weight < 'infinity'),
  constraint registration_min_priority_check check (min_priority in (0, 1, 10, 100))
) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
-- 05_node.sql has the comments of most columns of this table and the next.
comment on table pgrab.registration is
  'Internal: what each node said of itself when it registered, one row per node name. Read pgrab.node.';
comment on column pgrab.registration.weight is
  'Its `weight` setting: its share under the strategy `weight`, unless pgrab.override says another one.';
comment on column pgrab.registration.labels is
  'Its `labels` setting; they must contain a task''s `require`. See pgrab.override.';
comment on column pgrab.registration.slots is 'How many runs it can have at once.';
comment on column pgrab.registration.shards is
  'Shards it reads; the leftmost bit is shard 0. Written only when they change. Null: it has not said yet. '
  'Readable form: pgrab.ownership.';
comment on column pgrab.registration.down is
  'True: it is down, so that nobody need look at its beats. False: its last beat says.';
-- Serves: pgrab_internal.ring(), heartbeats, lanes.  Thousands of nodes may be down: each pod has its name.
create index registration_up_idx on pgrab.registration (id) where not down;
comment on index pgrab.registration_up_idx is 'Nodes that may be up.';

-- Every beat is a new row, and the one before it is deleted: an index scan from the end meets the newest
-- first, and never reads the dead rows that an old snapshot keeps behind it.  When a node that was thought
-- dead beats again while another declares it dead, both insert the number after the last one, and the primary
-- key lets only one of them through.  Nothing is ever updated, so no row lock keeps a heartbeat waiting.  The
-- table is logged on purpose: if a crash emptied it, every node would look dead.
create table pgrab.beat (
  node_id          bigint      not null,
  beat             bigint      not null,
  incarnation      bigint      not null,
  heartbeat_at     timestamptz not null,
  counts           bigint[]    not null default '{}',
  gauges           bigint[]    not null default '{}',
  bell             boolean     not null default true,
  busy             boolean     not null default false,
  ill              boolean     not null default false,
  state            text        not null,
  server_life      bigint,
  crews            jsonb,
  doubts           bigint[],
  fitness_why      text,
  work             text,
  constraint beat_pkey primary key (node_id, beat),
  constraint beat_state_check check (state in ('up', 'draining', 'down'))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.beat is
  'Internal: the heartbeats of the nodes; the row with the highest number of each node counts. Read '
  'pgrab.node.';
comment on column pgrab.beat.node_id is 'The node.';
comment on column pgrab.beat.counts is
  'What it has counted, this incarnation and those before it. pgrab.node has their names.';
comment on column pgrab.beat.gauges is
  'What it measured for this beat: {} when it is down. pgrab.node has their names.';

-- A table of its own, so that no heartbeat needs a row that users write, and no node overwrites it.
create table pgrab.override (
  node_id bigint not null,
  weight  double precision,
  labels  jsonb,
  constraint override_pkey primary key (node_id),
  constraint override_weight_check check (weight >= 0 and weight < 'infinity'),
  constraint override_labels_check check (jsonb_typeof(labels) = 'object')
);
comment on table pgrab.override is
  'What operators have said over nodes'' own settings: written by `update pgrab.node set weight = ..., '
  'labels = ...`. A restart of the node does not change it.';
comment on column pgrab.override.node_id is 'The node.';
comment on column pgrab.override.weight is 'Its share under the strategy `weight`. Null: its own setting.';
comment on column pgrab.override.labels is 'Its labels. Null: its own setting.';

-- A table of its own for the same reason.
create table pgrab.drained (
  node_id  bigint      not null,
  asked_at timestamptz not null default clock_timestamp(),
  asked_by text        not null default session_user,
  constraint drained_pkey primary key (node_id)
);
comment on table pgrab.drained is
  'Nodes that were told to take no new tasks: written by pgrab.drain(), or as pgrab.node.draining, read by '
  'the node with its heartbeat, removed by pgrab.undrain(). A restart of the node does not change it.';
comment on column pgrab.drained.node_id is 'The node.';
comment on column pgrab.drained.asked_at is 'When it was told.';
comment on column pgrab.drained.asked_by is 'Who told it.';

-- Only the node that has a run can stop it, and the finish must find the task's row as the run left it.  So
-- the request is a row of its own: the node reads it with its heartbeat, and whichever node ends the run (its
-- own, or one that finds its own dead) sees that it must not be tried again.
create table pgrab.cancel_request (
  task_id     bigint      not null,
  version     bigint      not null,
  incarnation bigint      not null,
  asked_at    timestamptz not null default clock_timestamp(),
  asked_by    text        not null default session_user,
  constraint cancel_request_pkey primary key (task_id)
);
comment on table pgrab.cancel_request is
  'Runs that are to be stopped: written by pgrab.cancel(), read by the node that has the run, removed when '
  'the run has ended.';
comment on column pgrab.cancel_request.task_id is 'The task.';
comment on column pgrab.cancel_request.version is
  'Its version during this run; the request does not apply to a later run.';
comment on column pgrab.cancel_request.incarnation is 'The incarnation that runs it.';
comment on column pgrab.cancel_request.asked_at is 'When it was asked for.';
comment on column pgrab.cancel_request.asked_by is 'By whom.';

-- What runs report while they are in progress.  Not in pgrab.task, whose rows claims and finishes change:
-- the node that has the run writes here, at most once per heartbeat and only what has changed, and deletes
-- the row when the run has ended.  A row counts only while the task still runs under that fence, so a
-- leftover does no harm.
create table pgrab.live (
  incarnation   bigint not null,
  task_id       bigint not null,
  version       bigint not null,
  progress      real,
  progress_at   timestamptz,
  stopping_at   timestamptz,
  progress_text text,
  waits_for     text,
  constraint live_pkey primary key (incarnation, task_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.live is
  'Runs in progress that have reported how far they are, or that were told to stop and have not ended yet. '
  'Read it through pgrab.running.';
comment on column pgrab.live.incarnation is 'The incarnation that runs it.';
comment on column pgrab.live.task_id is 'The task.';
comment on column pgrab.live.version is 'Its version during this run.';
comment on column pgrab.live.progress is 'How far it is, in percent. Null: it has not said.';
comment on column pgrab.live.progress_at is 'When it last said so.';
comment on column pgrab.live.stopping_at is
  'When it was told to stop (timeout, cancel, the end of its node); it may still be running. Null: it was '
  'not told to stop.';
comment on column pgrab.live.progress_text is 'What it is doing at the moment, in its own words.';
comment on column pgrab.live.waits_for is
  'What has yet to end, when the run was told to stop and that takes long.';

-- No key but the number, so that no request waits for another session's open transaction.
create table pgrab.live_request (
  id          bigint      generated always as identity,
  incarnation bigint      not null,
  task_id     bigint      not null,
  version     bigint      not null,
  asked_at    timestamptz not null default clock_timestamp(),
  asked_by    text        not null default session_user,
  constraint live_request_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
comment on table pgrab.live_request is
  'Requests for what a run has printed so far: written by pgrab.output(), taken by the node that runs it.';
comment on column pgrab.live_request.id is 'Number of the request.';
comment on column pgrab.live_request.incarnation is 'The incarnation that runs it.';
comment on column pgrab.live_request.task_id is 'The task.';
comment on column pgrab.live_request.version is 'Its version during this run.';
comment on column pgrab.live_request.asked_at is 'When it was made.';
comment on column pgrab.live_request.asked_by is 'By whom.';
create index live_request_incarnation_idx on pgrab.live_request (incarnation);
comment on index pgrab.live_request_incarnation_idx is 'The requests to a node.';

create table pgrab.live_output (
  incarnation bigint      not null,
  task_id     bigint      not null,
  version     bigint      not null,
  total       bigint      not null,
  told_at     timestamptz not null default clock_timestamp(),
  unbroken    integer     not null,
  output      text        not null,
  constraint live_output_pkey primary key (incarnation, task_id)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
comment on table pgrab.live_output is
  'What runs had printed at the last request, see pgrab.output(). Deleted when the run has ended; then the '
  'history has it.';
comment on column pgrab.live_output.incarnation is 'The incarnation that runs it.';
comment on column pgrab.live_output.task_id is 'The task.';
comment on column pgrab.live_output.version is 'Its version during this run.';
comment on column pgrab.live_output.total is 'Bytes it had printed by then, counted as they are shown.';
comment on column pgrab.live_output.told_at is 'When its node wrote this.';
comment on column pgrab.live_output.unbroken is 'How many bytes at the end of output have no gap in them.';
comment on column pgrab.live_output.output is 'At most 64 KiB, head and tail, made printable.';

create table pgrab.kind (
  kind    text    not null,
  summary text    not null,
  handled boolean not null default false,
  schema  jsonb,
  constraint kind_pkey primary key (kind),
  constraint kind_kind_check check (kind ~ '^[a-z][a-z0-9_]{0,31}$')
);
comment on table pgrab.kind is 'Kinds a task may have. A node that loads an executor adds its kind here.';
comment on column pgrab.kind.kind is 'The word for pgrab.task.kind.';
comment on column pgrab.kind.summary is 'What it does.';
comment on column pgrab.kind.handled is
  'True: handler processes carry it out, see docs/handlers.md; its args are any JSON object.';
comment on column pgrab.kind.schema is
  'JSON Schema of its args, as its handler declares it: a task that does not match is refused. The latest '
  'declaration counts. Null: any object.';
insert into pgrab.kind (kind, summary) values
  ('sql', 'run SQL in the same database, exactly once in effect'),
  ('shell', 'run a line with sh'),
  ('exec', 'run a program, no shell'),
  ('http', 'send an HTTP request'),
  ('notify', 'send a NOTIFY'),
  ('batch', 'end when all its members have ended'),
  ('noop', 'do nothing');

-- Each node writes about its own pools, when one changes.
create table pgrab.pool (
  node_id    bigint      not null,
  name       text        not null,
  command    text,
  kinds      jsonb       not null,
  processes  integer     not null,
  up         integer     not null,
  slots      integer     not null,
  lost       bigint      not null,
  library    text,
  fault      text,
  changed_at timestamptz not null default clock_timestamp(),
  constraint pool_pkey primary key (node_id, name)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
comment on table pgrab.pool is
  'Pools of handler processes: what the [pool NAME] sections of the nodes'' files ask for, and what is '
  'running.';
comment on column pgrab.pool.node_id is 'The node.';
comment on column pgrab.pool.name is 'NAME of the section.';
comment on column pgrab.pool.command is 'What is started.';
comment on column pgrab.pool.kinds is
  'Kinds that it handles, each with the JSON Schema of its args, or null.';
comment on column pgrab.pool.processes is 'How many processes there should be.';
comment on column pgrab.pool.up is 'How many have said hello and take tasks.';
comment on column pgrab.pool.slots is 'How many tasks those can run at once.';
comment on column pgrab.pool.lost is 'Processes that ended without being asked to, since the node started.';
comment on column pgrab.pool.library is 'The library that the processes say they use.';
comment on column pgrab.pool.fault is
  'Why the last process was lost or could not be started. Null: one has come up since.';
comment on column pgrab.pool.changed_at is 'When the node last wrote this.';

create table pgrab.limit (
  key         text not null,
  max_running integer,
  per_second  double precision,
  break_after integer,
  break_for   interval,
  owner       text not null default current_user,
  constraint limit_pkey primary key (key),
  constraint limit_key_check check (key <> '' and octet_length(key) <= 1000 and key not like 'quota:%'),
  constraint limit_max_running_check check (max_running >= 0),
  constraint limit_per_second_check check (per_second between 0.000001 and 100000),
  constraint limit_break_after_check check (break_after between 1 and 1000000),
  constraint limit_break_for_check check (break_for >= '100 ms' and break_for <= '1 year'
    and date_part('epoch', break_for) between 0 and 1e9 and date_part('day', break_for) between -1e6 and 1e6),
  constraint limit_some_check check (num_nonnulls(max_running, per_second, break_after) > 0)
);
comment on table pgrab.limit is
  'How many tasks of one limit_key may run at the same time, and how many may start per second, over all '
  'nodes. pgrab.limits shows how they are used.';
comment on column pgrab.limit.key is
  'The word for pgrab.task.limit_key. With * at its end, a pattern: tenant:* is a limit of its own for each '
  'key that begins with tenant: and has no limit that says more.';
comment on column pgrab.limit.owner is
  'Who made it: current_user of the insert. Tasks of that owner may count against it; a limit made by an '
  'operator is for everyone.';
comment on column pgrab.limit.max_running is 'How many may run at once; 0 stops them all. Null: unlimited.';
comment on column pgrab.limit.per_second is
  'How many may start within any one second; 0.1 means one in ten seconds. Null: unlimited.';
comment on column pgrab.limit.break_after is
  'After so many failures in a row it is broken: nothing starts for break_for, then one run at a time, until '
  'one succeeds. Null: never.';
comment on column pgrab.limit.break_for is 'How long. Null: a minute. A change counts at once.';

-- A place belongs to a run, whatever becomes of its task: it is freed by the run's finish, or by the recovery
-- of its incarnation.  See docs/adr/0008-limits.md.
create table pgrab.limit_place (
  task_id     bigint      not null,
  version     bigint,
  incarnation bigint,
  at          timestamptz not null,
  started     boolean     not null,
  over        boolean     not null default false,
  failed      boolean,
  key         text        not null,
  constraint limit_place_pkey primary key (task_id, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.limit_place is
  'Internal: places under limits. Taken before the start, given back with the finish, in its transaction.';
comment on column pgrab.limit_place.task_id is 'The task whose run has it.';
comment on column pgrab.limit_place.version is 'Which run: the task''s version during it.';
comment on column pgrab.limit_place.incarnation is 'Which run: the incarnation that runs it.';
comment on column pgrab.limit_place.at is 'When it started, or may start.';
comment on column pgrab.limit_place.started is
  'False: kept for a task that waited in line and is due at `at`.';
comment on column pgrab.limit_place.over is
  'True: the run ended while another session had the limit locked; the place is free but still counted.';
comment on column pgrab.limit_place.failed is 'How that run ended; null: that says nothing about the limit.';
comment on column pgrab.limit_place.key is 'The limit.';
-- Serves: limit_reap().  Running tasks are not in it.
create index limit_place_loose_idx on pgrab.limit_place (key, at) where over or not started;
comment on index pgrab.limit_place_loose_idx is 'Places that no run has.';
-- Serves: limit_recover().
create index limit_place_incarnation_idx on pgrab.limit_place (incarnation) where incarnation is not null;
comment on index pgrab.limit_place_incarnation_idx is 'The places of an incarnation.';

-- How a limit is used.  As with beats, each change is a new row, and the one before it is deleted.  Row 0 of
-- a key never changes: it is the lock.
create table pgrab.limit_use (
  no         bigint      not null,
  taken      bigint      not null default 0,
  starts     bigint      not null default 0,
  started_at timestamptz,
  planned_at timestamptz,
  broken_until timestamptz,
  failures   integer     not null default 0,
  waits      boolean     not null default false,
  key        text        not null,
  constraint limit_use_pkey primary key (key, no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.limit_use is
  'Internal: how each limit is used. The row with the highest number of a key counts.';
comment on column pgrab.limit_use.no is 'Number of the change. 0: the row to lock before changing anything.';
comment on column pgrab.limit_use.taken is 'How many places are taken: rows of pgrab.limit_place.';
comment on column pgrab.limit_use.starts is 'How many have started, under per_second.';
comment on column pgrab.limit_use.started_at is 'When the last of them started.';
comment on column pgrab.limit_use.planned_at is 'The latest time for which a place has been kept.';
comment on column pgrab.limit_use.failures is 'How many runs in a row have failed, if it has break_after.';
comment on column pgrab.limit_use.broken_until is 'While it is broken: when the next run may start, to try.';
comment on column pgrab.limit_use.waits is 'True: tasks wait in line.';
comment on column pgrab.limit_use.key is 'The limit.';

create table pgrab.limit_start (
  no  bigint      not null,
  at  timestamptz not null,
  key text        not null,
  constraint limit_start_pkey primary key (key, no)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.limit_start is
  'Internal: the latest starts under per_second; start n waits until start n - per_second is a second ago.';
comment on column pgrab.limit_start.no is 'Number of the start.';
comment on column pgrab.limit_start.at is 'When it was.';
comment on column pgrab.limit_start.key is 'The limit.';

-- What one owner, or all tasks of one share_key, may use up.  See migrations/api/24_quota.sql.
create table pgrab.quota (
  id                 bigint  generated always as identity,
  owner              text,
  share_key          text,
  max_tasks          bigint,
  max_running        integer,
  inserts_per_minute integer,
  max_lanes          integer,
  max_bytes          integer,
  when_full          text    not null default 'refuse',
  set_by             text    not null default current_user,
  constraint quota_pkey primary key (id),
  constraint quota_owner_key unique (owner),
  constraint quota_share_key_key unique (share_key),
  constraint quota_whose_check check (num_nonnulls(owner, share_key) = 1),
  constraint quota_owner_check check (octet_length(owner) between 1 and 63),
  constraint quota_share_key_check check (octet_length(share_key) between 1 and 200),
  constraint quota_max_tasks_check check (max_tasks >= 0),
  constraint quota_max_running_check check (max_running >= 0),
  constraint quota_inserts_per_minute_check check (inserts_per_minute >= 0),
  constraint quota_max_lanes_check check (
    max_lanes is null or max_lanes >= 1 and owner is not null),
  constraint quota_max_bytes_check check (max_bytes >= 0),
  constraint quota_when_full_check check (when_full in ('refuse', 'hold')),
  constraint quota_some_check check (
    num_nonnulls(max_tasks, max_running, inserts_per_minute, max_lanes, max_bytes) > 0)
);
comment on table pgrab.quota is
  'What the tasks of one owner, or those of a share_key, may use up, so that no role can hurt another. '
  'Written by operators. pgrab.quotas shows how they are used.';
comment on column pgrab.quota.id is 'Number of the quota.';
comment on column pgrab.quota.owner is 'The role whose tasks count. Null: those of a share_key do.';
comment on column pgrab.quota.share_key is
  'The share_key whose tasks count; with * at its end, a pattern: a quota of its own for each key that '
  'begins like that and has none that says more. Tasks of another owner count by themselves.';
comment on column pgrab.quota.max_tasks is
  'How many tasks there may be, waiting or not; with `hold`, and for a share_key, how many may be planned or '
  'running. Null: any number.';
comment on column pgrab.quota.max_running is 'How many may run at once; 0 stops them all. Null: any number.';
comment on column pgrab.quota.inserts_per_minute is
  'How many tasks may be inserted within any minute. Null: any number.';
comment on column pgrab.quota.max_lanes is
  'In how many lanes (pgrab.lane) tasks of the owner may stand. Null: pgrab.cluster.owner_lanes.';
comment on column pgrab.quota.max_bytes is
  'How long command and args of a task may be together, in bytes. Null: 1 MiB each.';
comment on column pgrab.quota.when_full is
  'What becomes of an INSERT beyond max_tasks or inserts_per_minute: refuse, or hold: the tasks wait in line '
  'until there is room. What is too long, or in too many lanes, is always refused.';
comment on column pgrab.quota.set_by is 'Who made it.';

-- A row for some of the INSERTs under inserts_per_minute, so that nobody waits for anybody: quota_note().
create table pgrab_internal.quota_insert (
  id  bigint      generated always as identity,
  at  timestamptz not null default clock_timestamp(),
  n   bigint      not null,
  key text        not null,
  constraint quota_insert_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab_internal.quota_insert is
  'What was inserted within the last minute under quotas with inserts_per_minute.';
comment on column pgrab_internal.quota_insert.id is 'Number of the row.';
comment on column pgrab_internal.quota_insert.at is 'When.';
comment on column pgrab_internal.quota_insert.n is 'How many tasks the row stands for.';
comment on column pgrab_internal.quota_insert.key is 'Which quota: pgrab_internal.quota_key().';
-- Serves: quota_inserts().
create index quota_insert_idx on pgrab_internal.quota_insert (key, at);
comment on index pgrab_internal.quota_insert_idx is 'The last minute of a quota.';
revoke all on pgrab_internal.quota_insert from public;

-- What tasks wait for that comes from outside, and until when.  Such a task is `waiting`, has no due_at and
-- is in no index of due tasks; a node looks only at the head of wait_until_idx.  A row counts while its task
-- waits, so a leftover does no harm.
create table pgrab.wait (
  task_id bigint      not null,
  since   timestamptz not null,
  until   timestamptz,
  told    interval    not null default '0',
  goes_on boolean     not null default false,
  beat_at timestamptz,
  progress real,
  name    text,
  progress_text text,
  constraint wait_pkey primary key (task_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.wait is
  'Internal: tasks that wait for something from outside. Readable form: pgrab.waits.';
comment on column pgrab.wait.task_id is 'The task.';
comment on column pgrab.wait.since is
  'From when on it waits: its planned time, the end of its parents, or that of its run or request.';
comment on column pgrab.wait.until is
  'When its fire, or the run whose answer it waits for, ends as timed_out, or its handler goes on. Null: '
  'never.';
comment on column pgrab.wait.told is
  'The longest `after` of the alerts that have reported it; 0: none has. See pgrab_internal.waiting_tick().';
comment on column pgrab.wait.goes_on is
  'True: a handler waits (ctx.wait), and the fire goes on in any case. False: it has yet to begin.';
comment on column pgrab.wait.beat_at is
  'When the receiver of its request last said that it is at work. Null: it has not.';
comment on column pgrab.wait.progress is 'How far it then was, in percent. Null: it has not said.';
comment on column pgrab.wait.name is
  'The signal that it waits for; (members): those of a batch. Null: it waits for the answer to a request '
  '(args.await of kind http).';
comment on column pgrab.wait.progress_text is 'What it was doing, in its own words.';
-- Serves: waits_tick().
create index wait_until_idx on pgrab.wait (until) where until is not null;
comment on index pgrab.wait_until_idx is 'Which wait is over next.';
-- Serves: waiting_tick().  Those of which an alert has told already are not read again.
create index wait_told_idx on pgrab.wait (told, since);
comment on index pgrab.wait_told_idx is 'Which waits have become longer than an alert permits.';

create table pgrab.signal (
  task_id bigint      not null,
  at      timestamptz not null default clock_timestamp(),
  name    text        not null,
  role    text        not null,
  payload jsonb,
  constraint signal_pkey primary key (task_id, name)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.signal is
  'Signals that have come for the current fire of a task, sent by pgrab.signal(). Deleted when the fire is '
  'over; then the history has them (pgrab.run.signals).';
comment on column pgrab.signal.task_id is 'The task.';
comment on column pgrab.signal.at is 'When it came.';
comment on column pgrab.signal.name is 'Its name; the first of a name counts.';
comment on column pgrab.signal.role is 'Who sent it.';
comment on column pgrab.signal.payload is 'What was sent with it. Null: nothing.';

create table pgrab.batch (
  task_id   bigint      not null,
  sealed_at timestamptz,
  look_at   timestamptz,
  constraint batch_pkey primary key (task_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.batch is 'Batches that have not ended. Read pgrab.batches.';
comment on column pgrab.batch.task_id is 'The task of kind batch.';
comment on column pgrab.batch.sealed_at is 'When it was sealed. Null: members can be added.';
comment on column pgrab.batch.look_at is
  'When a node looks whether members are left. Null: it is not sealed.';
-- Serves: batches_tick().
create index batch_look_idx on pgrab.batch (look_at) where look_at is not null;
comment on index pgrab.batch_look_idx is 'Which batch is looked at next.';

-- A row for each INSERT of members, and for members that left otherwise than by success: so nobody waits for
-- anybody.  A node adds them up.
create table pgrab.batch_count (
  id      bigint generated always as identity,
  batch   bigint not null,
  members bigint not null default 0,
  gone    bigint not null default 0,
  constraint batch_count_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.batch_count is
  'Internal: how many members batches have had; the sum of the rows counts.';
comment on column pgrab.batch_count.id is 'Number of the row.';
comment on column pgrab.batch_count.batch is 'The batch.';
comment on column pgrab.batch_count.members is 'Members that were added.';
comment on column pgrab.batch_count.gone is 'Members that were cancelled, skipped or deleted.';
create index batch_count_idx on pgrab.batch_count (batch);
comment on index pgrab.batch_count_idx is 'What is written down of a batch.';

-- What a calendar says is looked up for each fire that is planned, so an edit counts from its commit on.
-- Only what was planned before is planned again by a node, see pgrab_internal.replan.
create table pgrab.calendar (
  name            text   not null,
  closed_weekdays text[] not null default '{sat,sun}',
  owner           text   not null default current_user,
  constraint calendar_pkey primary key (name),
  constraint calendar_name_check check (octet_length(name) between 1 and 1000),
  constraint calendar_closed_weekdays_check check (
    closed_weekdays <@ '{mon,tue,wed,thu,fri,sat,sun}' and array_position(closed_weekdays, null) is null
    and cardinality(closed_weekdays) <= 7)
);
comment on table pgrab.calendar is
  'Calendars: on which days the schedules fire that name one in pgrab.task.calendar. A day is closed if '
  'pgrab.calendar_day says so, or if it says nothing and the weekday is closed. See docs/calendar.md.';
comment on column pgrab.calendar.name is 'The word for pgrab.task.calendar.';
comment on column pgrab.calendar.closed_weekdays is
  'Days of the week that are closed: mon, tue, wed, thu, fri, sat, sun. {} closes none.';
comment on column pgrab.calendar.owner is
  'Who made it: current_user of the insert. Tasks of that owner may use it; a calendar made by an operator '
  'is for everyone.';

create table pgrab.calendar_day (
  day      date    not null,
  open     boolean not null default false,
  calendar text    not null,
  note     text,
  constraint calendar_day_pkey primary key (calendar, day),
  constraint calendar_day_calendar_fkey foreign key (calendar) references pgrab.calendar
    on update cascade on delete cascade,
  constraint calendar_day_day_check check (day between '1970-01-01' and '9999-12-31'),
  constraint calendar_day_note_check check (octet_length(note) <= 1000)
);
comment on table pgrab.calendar_day is
  'Days that are not as their weekday says: a holiday, or a day worked instead.';
comment on column pgrab.calendar_day.day is 'The date, as a clock in the zone of the task shows it.';
comment on column pgrab.calendar_day.open is 'False: closed. True: open, although the weekday is closed.';
comment on column pgrab.calendar_day.calendar is 'The calendar.';
comment on column pgrab.calendar_day.note is
  'Why, for readers: the history repeats it for each fire that is skipped.';

-- Serves: calendars_tick().  Claim, start and finish write none of its columns.
create index task_calendar_idx on pgrab.task (calendar, id) where calendar is not null;
comment on index pgrab.task_calendar_idx is 'Tasks by their calendar.';

-- A row for each edit of a calendar.  Rows, and not a mark in the calendar: no edit waits for another.
create table pgrab_internal.replan (
  id       bigint  generated always as identity,
  edit     xid8    not null default pg_current_xact_id(),
  next_id  bigint,
  started  boolean not null default false,
  final    boolean not null default false,
  calendar text    not null,
  constraint replan_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab_internal.replan is
  'Calendars that were edited, and whose tasks have yet to be planned again: see calendars_tick().';
comment on column pgrab_internal.replan.id is 'Number of the edit.';
comment on column pgrab_internal.replan.edit is 'The transaction that edited it.';
comment on column pgrab_internal.replan.next_id is
  'The last task of the slice before. Null: no round is under way.';
comment on column pgrab_internal.replan.started is 'True: its tasks have been planned again once.';
comment on column pgrab_internal.replan.final is
  'True: this round is the last, for nobody plans with the calendar as it was any more.';
comment on column pgrab_internal.replan.calendar is 'The calendar.';
revoke all on pgrab_internal.replan from public;

-- See docs/adr/0036-blackouts.md.
create sequence pgrab_internal.blackout_edition_seq;
comment on sequence pgrab_internal.blackout_edition_seq is 'Numbers of pgrab.blackout.edition.';
revoke all on pgrab_internal.blackout_edition_seq from public;

create table pgrab.blackout (
  name      text        not null,
  during    tstzrange,
  schedule  text,
  lasts     interval,
  timezone  text        not null default 'UTC',
  task_like text,
  source    text,
  owner     text,
  action    text        not null default 'hold',
  note      text,
  set_by    text        not null default current_user,
  begins_at timestamptz,
  ends_at   timestamptz,
  edition   bigint      not null,
  constraint blackout_pkey primary key (name),
  constraint blackout_name_check check (octet_length(name) between 1 and 1000),
  constraint blackout_note_check check (octet_length(note) <= 1000),
  constraint blackout_action_check check (action in ('hold', 'skip')),
  constraint blackout_window_check check (
    case when during is null then num_nulls(schedule, lasts) = 0 else num_nonnulls(schedule, lasts) = 0 end)
);
comment on table pgrab.blackout is
  'Blackouts: windows in which no task is started, or none that matches. What runs goes on. Read it through '
  'pgrab.blackouts; see docs/calendar.md.';
comment on column pgrab.blackout.name is 'Name of the window. Null in an INSERT: the time, in UTC.';
comment on column pgrab.blackout.during is 'From when until when, once. Null: schedule says.';
comment on column pgrab.blackout.schedule is 'When it begins, again and again, as in pgrab.task.schedule.';
comment on column pgrab.blackout.lasts is
  'How long it lasts, with a schedule. Days end at the same local time, hours are elapsed time.';
comment on column pgrab.blackout.timezone is 'The zone of the schedule.';
comment on column pgrab.blackout.task_like is
  'Only tasks whose name (or key, when there is none) is LIKE this. Null: any.';
comment on column pgrab.blackout.source is 'Only tasks of this source. Null: of any.';
comment on column pgrab.blackout.owner is 'Only tasks of this owner. Null: of any.';
comment on column pgrab.blackout.action is
  'hold: what becomes due runs when the window ends. skip: it is not run, and the history says why; a fire '
  'that has begun already is held.';
comment on column pgrab.blackout.note is 'Why, for readers: explain and the history repeat it.';
comment on column pgrab.blackout.set_by is
  'Who made it: current_user of the insert. It is for the tasks of that owner; one that an operator made is '
  'for everyone''s.';
comment on column pgrab.blackout.begins_at is
  'System: when the window begins that is on, or the next one. Null: none is left.';
comment on column pgrab.blackout.ends_at is 'System: when that one ends.';
comment on column pgrab.blackout.edition is
  'System: a number that changes with each edit that lets go what was held.';

-- Apart from pgrab.task, so that what no window holds pays nothing for it.
create table pgrab_internal.put_off (
  task_id bigint      not null,
  edition bigint      not null,
  until   timestamptz not null,
  constraint put_off_pkey primary key (task_id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab_internal.put_off is
  'Tasks that a blackout holds, so that they can be let go before its end. A row stays until that is over.';
comment on column pgrab_internal.put_off.task_id is 'The task.';
comment on column pgrab_internal.put_off.edition is 'The window, as it was then: pgrab.blackout.edition.';
comment on column pgrab_internal.put_off.until is
  'When the task is due. One that is due at another time is not held any more.';
-- Serves: put_off_until(), let_go_slice(), put_off_forget(), put_off_count().
create index put_off_edition_idx on pgrab_internal.put_off (edition, until);
comment on index pgrab_internal.put_off_edition_idx is 'What a window holds, in order.';
revoke all on pgrab_internal.put_off from public;

create table pgrab_internal.let_go (
  edition bigint      not null,
  edit    xid8        not null default pg_current_xact_id(),
  done    bigint      not null default 0,
  at      timestamptz not null default clock_timestamp(),
  next_at timestamptz,
  constraint let_go_pkey primary key (edition)
);
comment on table pgrab_internal.let_go is
  'Blackouts that were deleted or edited, and what they held has yet to be let go: see blackouts_tick().';
comment on column pgrab_internal.let_go.edition is 'The window, as it was: pgrab.blackout.edition.';
comment on column pgrab_internal.let_go.edit is 'The transaction that edited it.';
comment on column pgrab_internal.let_go.done is 'How many tasks have been let go.';
comment on column pgrab_internal.let_go.at is 'When the first of them is due.';
comment on column pgrab_internal.let_go.next_at is
  'How far the slice before has come. Null: begin with the first.';
revoke all on pgrab_internal.let_go from public;

-- What one node at a time does for all of them.  The node that does it holds its row; the others skip it.
-- Not an advisory lock, because any role could hold that.
create table pgrab.duty (
  duty    text        not null,
  done_at timestamptz not null default 'epoch',
  about   text,
  next_id bigint,
  constraint duty_pkey primary key (duty)
) with (fillfactor = 10);
comment on table pgrab.duty is 'Internal: what is done for the whole cluster, by any one node at a time.';
comment on column pgrab.duty.duty is 'Name of the duty.';
comment on column pgrab.duty.done_at is 'When it was done last.';
comment on column pgrab.duty.about is
  'For strays: the server and the timeline that they were searched on; for limits: the last key of the round '
  'before, if there was no time for all.';
comment on column pgrab.duty.next_id is
  'For one that is done in slices: the last task of the slice before. Null: all of it is done.';
insert into pgrab.duty (duty)
values ('batches'), ('blackouts'), ('calendars'), ('chains'), ('lanes'), ('limit_audit'), ('limits'),
  ('overdue'), ('quotas'), ('slow'), ('strays'), ('upkeep'), ('waiting');

create table pgrab.edge (
  parent_id bigint not null,
  child_id  bigint not null,
  run_if    text   not null default 'success',
  constraint edge_pkey primary key (parent_id, child_id),
  constraint edge_run_if_check check (run_if in ('success', 'failure', 'always'))
);
comment on table pgrab.edge is
  'Further parents of tasks (the first may be pgrab.task.parent_id): a task starts once, when all its '
  'parents have ended as asked. Insert and delete rows. There are no foreign keys, so that independent tasks '
  'pay nothing; triggers keep it consistent.';
comment on column pgrab.edge.parent_id is 'The task that has to end.';
comment on column pgrab.edge.child_id is 'The task that waits for it.';
comment on column pgrab.edge.run_if is 'Which outcome of the parent: success, failure, always.';
create index edge_child_idx on pgrab.edge (child_id);
comment on index pgrab.edge_child_idx is 'The parents of a task.';

create sequence pgrab.chain_run_seq;
comment on sequence pgrab.chain_run_seq is 'Numbers of chain runs: pgrab.run.chain_id.';

create table pgrab.chain (
  chain    bigint  generated always as identity,
  root     bigint,
  chain_id bigint  not null default nextval('pgrab.chain_run_seq'),
  pending  integer,
  stuck    boolean not null default false,
  since    timestamptz not null default clock_timestamp(),
  constraint chain_pkey primary key (chain),
  constraint chain_pending_check check (pending >= 0)
) with (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
comment on table pgrab.chain is
  'One row per chain (connected tasks): the run it is in. The session that ends the run locks this row. '
  'Readable form: pgrab.chains, pgrab.chain_runs.';
comment on column pgrab.chain.chain is 'Number of the chain, the same as in pgrab.task.chain.';
comment on column pgrab.chain.root is 'The root that has a schedule. Null: the chain runs once.';
comment on column pgrab.chain.chain_id is
  'Number of its current or next run, the same as in pgrab.run.chain_id.';
comment on column pgrab.chain.pending is
  'Links of a chain with a schedule that have not ended in this run. Null: the chain runs once, and nothing '
  'is counted.';
comment on column pgrab.chain.since is
  'When the first link of that run can have ended: older history has nothing of it.';
comment on column pgrab.chain.stuck is
  'For a chain that runs once: a link has been parked, so skipped links are kept for a retry.';
-- Serves: pgrab.chains, pgrab.chain_runs, pgrab.cancel of a root that has ended.
create index chain_run_idx on pgrab.chain (chain_id);
comment on index pgrab.chain_run_idx is 'The chain that is in a run.';

create table pgrab_internal.transition (
  event   text    not null,
  was     text    not null,
  becomes text    not null,
  alone   boolean not null,
  gone    boolean not null,
  quiet   boolean not null,
  says    text    not null,
  constraint transition_pkey primary key (was, event, becomes)
);
comment on table pgrab_internal.transition is
  'The moves that a task can make: each change of pgrab.task.status is one of these. Only `count` leads to '
  'two statuses. Its rows are in migrations/api/23_move.sql.';
comment on column pgrab_internal.transition.event is 'What happens to the task.';
comment on column pgrab_internal.transition.was is 'Its status before.';
comment on column pgrab_internal.transition.becomes is 'Its status afterwards.';
comment on column pgrab_internal.transition.alone is
  'True: when a link ends so, the caller takes care of its children and its chain.';
comment on column pgrab_internal.transition.gone is
  'True: it leaves pgrab.task in any case; false: when it has ended and runs once.';
comment on column pgrab_internal.transition.quiet is 'True: nodes need not be told, even if it is due soon.';
comment on column pgrab_internal.transition.says is 'When that is, for readers.';
revoke all on pgrab_internal.transition from public;

create table pgrab_internal.key (
  name    text        not null,
  value   text        not null,
  made_at timestamptz not null default clock_timestamp(),
  constraint key_pkey primary key (name)
);
comment on table pgrab_internal.key is
  'Secrets that only the owner of pgrab may read. By some of them triggers tell pgrab''s own functions from '
  'other callers; by others tokens are signed.';
comment on column pgrab_internal.key.name is
  'What it is for: link_ends, call; answer (tokens of callbacks), answer_before (the one that it replaced).';
comment on column pgrab_internal.key.value is 'The key.';
comment on column pgrab_internal.key.made_at is 'When it was made.';
revoke all on pgrab_internal.key from public;

create table pgrab.secret (
  owner text not null default current_user,
  name  text not null,
  value text not null,
  constraint secret_pkey primary key (owner, name),
  constraint secret_name_check check (name ~ '^[A-Za-z0-9_.-]{1,200}$'),
  constraint secret_value_check check (octet_length(value) <= 65536)
);
comment on table pgrab.secret is
  'Values that the args of a task may name instead of containing them. Each belongs to a role, and only '
  'tasks of that role get it. With separate roles a value can be inserted, updated and deleted, but not read '
  'back.';
comment on column pgrab.secret.owner is 'The role it belongs to: current_user of the insert.';
comment on column pgrab.secret.name is 'The name that its owner''s tasks use.';
comment on column pgrab.secret.value is 'The value, at most 64 KiB.';

create table pgrab_internal.run_key (
  incarnation bigint      not null,
  key         bytea       not null,
  at          timestamptz not null default now(),
  constraint run_key_pkey primary key (incarnation)
);
comment on table pgrab_internal.run_key is
  'Keys by which a sql run, on a connection of the task''s owner, proves that a node has started it: see '
  'pgrab_internal.run_proof(). Written at each registration.';
comment on column pgrab_internal.run_key.incarnation is 'Which start of a node it belongs to.';
comment on column pgrab_internal.run_key.at is 'When it was made.';
comment on column pgrab_internal.run_key.key is
  'Random bytes, which only the owner of pgrab and the nodes may read.';
revoke all on pgrab_internal.run_key from public;

-- `at` is the time of the insert, not of the transaction: events keep the order in which they happened.
create table pgrab.event (
  at      timestamptz not null default clock_timestamp(),
  what    text        not null,
  role    text        not null default current_user,
  login   text        not null default session_user,
  task_id bigint,
  task    text,
  owner   text,
  detail  jsonb
) partition by range (at);
comment on table pgrab.event is
  'Who did what to tasks, limits and nodes, written in the transaction that did it. Daily partitions, kept '
  'as long as the history. What nodes do is not in it, but for fires that were missed, nor are inserts of '
  'plain one-shot tasks. Readable form: pgrab.events.';
comment on column pgrab.event.at is 'When.';
comment on column pgrab.event.what is
  'insert (of a schedule), edit, delete, pause, resume, retry, cancel, run_now, skip_next, signal, seal, '
  'backfill, delete_chain, drain, undrain, node (its weight or labels), limit, calendar, blackout, '
  'pause_all, resume_all, migrate; missed '
  '(fires that no node could run in time), slow and late (as alerts asked to hear), upkeep (by hand).';
comment on column pgrab.event.role is 'Who: current_user.';
comment on column pgrab.event.login is 'The role that had logged in: session_user.';
comment on column pgrab.event.task_id is 'Which task it was done to. Null: to none.';
comment on column pgrab.event.task is 'Name or key of the task; or the limit or node it was done to.';
comment on column pgrab.event.owner is 'Owner of the task.';
comment on column pgrab.event.detail is
  'For an edit, {column: [old, new]}, with 200 characters of each value.';
create table pgrab.event_rest partition of pgrab.event default;
alter table pgrab.event_rest replica identity full;
comment on table pgrab.event_rest is 'Events of days that had no partition yet: pgrab.upkeep() moves them.';
-- Serves: pgrab events --task.
create index event_task_idx on pgrab.event (task_id) where task_id is not null;
comment on index pgrab.event_task_idx is 'What was done to one task.';
-- Serves: pgrab.events (newest first).
create index event_at_idx on pgrab.event (at);
comment on index pgrab.event_at_idx is 'The newest events.';

create table pgrab.edge_change (
  chain     bigint  not null,
  parent_id bigint  not null,
  child_id  bigint  not null,
  run_if    text    not null,
  added     boolean not null,
  id        bigint  generated always as identity,
  constraint edge_change_pkey primary key (id)
);
comment on table pgrab.edge_change is
  'Internal: edges added to or taken from a recurring chain while it runs. The run uses the graph it began '
  'with; the row is deleted when it has ended.';
comment on column pgrab.edge_change.chain is 'The chain.';
comment on column pgrab.edge_change.parent_id is 'Parent of the edge.';
comment on column pgrab.edge_change.child_id is 'Child of the edge.';
comment on column pgrab.edge_change.run_if is 'Its condition.';
comment on column pgrab.edge_change.added is 'True: it does not count in this run. False: it still does.';
comment on column pgrab.edge_change.id is 'Number of the change.';
create index edge_change_parent_idx on pgrab.edge_change (parent_id);
comment on index pgrab.edge_change_parent_idx is 'The changes to edges of a parent that has ended.';
create index edge_change_child_idx on pgrab.edge_change (child_id);
comment on index pgrab.edge_change_child_idx is 'The changes to edges of a child that starts.';
create index edge_change_chain_idx on pgrab.edge_change (chain);
comment on index pgrab.edge_change_chain_idx is 'The changes to edges of a chain that ends.';

create table pgrab.skipping (
  task_id bigint      not null,
  chain   bigint      not null,
  status  text        not null,
  fire_at timestamptz,
  constraint skipping_pkey primary key (task_id)
);
comment on table pgrab.skipping is
  'Internal: links that have ended and below which more links must be skipped than the end of a run does at '
  'once. A node goes on with them; then the row is deleted.';
comment on column pgrab.skipping.task_id is 'The link. Its row may have left pgrab.task.';
comment on column pgrab.skipping.chain is 'Its chain.';
comment on column pgrab.skipping.status is 'How it ended: done, parked, cancelled, skipped.';
comment on column pgrab.skipping.fire_at is 'The planned time of its run.';
-- Serves: chain_lock(), and the end of a chain's run.
create index skipping_chain_idx on pgrab.skipping (chain);
comment on index pgrab.skipping_chain_idx is 'What a chain has left to be skipped.';

create table pgrab.cluster (
  only_row  boolean     not null default true,
  paused    boolean     not null default false,
  paused_at timestamptz,
  paused_by text,
  system_id bigint,
  database  bigint,
  roles     boolean     not null default false,
  quotas    boolean     not null default false,
  submit_priority smallint not null default 9,
  submit_misfire_limit integer not null default 1000,
  owner_lanes integer not null default 500,
  constraint cluster_pkey primary key (only_row),
  constraint cluster_only_row_check check (only_row),
  -- what an INSERT that leaves both alone has is never refused
  constraint cluster_bounds_check check (submit_priority >= 0 and submit_misfire_limit >= 100)
);
comment on table pgrab.cluster is
  'What applies to all nodes: one row. Written by pgrab.pause_all() and pgrab.resume_all().';
comment on column pgrab.cluster.only_row is 'Always true: there is one row.';
comment on column pgrab.cluster.paused is 'True: no node takes any task. Runs in progress continue.';
comment on column pgrab.cluster.paused_at is 'When it was paused.';
comment on column pgrab.cluster.paused_by is 'Who paused it.';
comment on column pgrab.cluster.system_id is
  'The server on which the first node found this database. On another server it is a copy, see '
  'pgrab.adopt().';
comment on column pgrab.cluster.database is 'The oid that the database had there.';
comment on column pgrab.cluster.submit_priority is
  'With separate roles: the highest priority for tasks of a role that is not an operator. Each band is worth '
  '15 minutes of everybody else''s waiting.';
comment on column pgrab.cluster.submit_misfire_limit is
  'With separate roles: the highest misfire_limit of such tasks, which is the number of catch-up runs.';
comment on column pgrab.cluster.owner_lanes is
  'In how many lanes (pgrab.lane) the tasks of one owner may stand.';
comment on column pgrab.cluster.quotas is
  'True: there are quotas, or have been, so each INSERT looks for its own.';
comment on column pgrab.cluster.roles is
  'False: one role does everything. True: there are pgrab_owner, pgrab_node, pgrab_submit, pgrab_operator '
  'and pgrab_read, see docs/security.md. Written by `pgrab migrate --roles`.';
insert into pgrab.cluster default values;

create table pgrab.alert (
  name      text    not null,
  events    text[]  not null default '{failed,parked,recovered}',
  after     interval,
  schedule  text,
  timezone  text    not null default 'UTC',
  owner     text,
  task_like text,
  source    text,
  node_like text,
  template  jsonb   not null,
  enabled   boolean not null default true,
  set_by    text    not null default current_user,
  told_at   timestamptz not null default now(),
  next_at   timestamptz,
  constraint alert_pkey primary key (name),
  constraint alert_name_check check (octet_length(name) between 1 and 1000),
  constraint alert_events_check check (
    events <@ '{succeeded,failed,parked,recovered,overdue,missed,waiting,slow,broken,mended,node_down,node_up,
      alive,digest}'
    and cardinality(events) between 1 and 20 and array_position(events, null) is null),
  constraint alert_after_check check (
    case when 'waiting' = any (events) then coalesce(after > '0' and after <= '3650 days'
        and date_part('epoch', after) between 0 and 1e9
        and date_part('day', after) between -1e6 and 1e6, false) -- is_span(), 10_check.sql
      else after is null end),
  constraint alert_schedule_check check ((events && '{alive,digest}') = (schedule is not null)),
  constraint alert_succeeded_check check (
    'succeeded' <> all (events) or num_nonnulls(task_like, source) > 0)
);
comment on table pgrab.alert is
  'Alerts: each row inserts a task, once when a matching task begins to fail and once when it has recovered; '
  'nodes likewise. For a single task there is pgrab.task.on_failure. See docs/alerts.md.';
comment on column pgrab.alert.name is 'Name of the alert.';
comment on column pgrab.alert.events is
  'When: failed (a fire of a schedule or a chain has failed for good), parked (the task waits for a person), '
  'recovered (a success after either, or after overdue), overdue (no success within expect_within), missed '
  '(no node could run a fire in time; at most once an hour for a task), waiting (for a signal, an answer, or '
  'members, for longer than `after`), slow (a run takes longer than its task''s slow_after, or than usual), '
  'succeeded (each success, of the tasks that task_like or source name). '
  'Of limits: broken (break_after failures in a row), mended. For alerts of operators: node_down (a node has '
  'died or fallen silent; being stopped does not count), node_up (it is back). By `schedule`: alive (all is '
  'well with the nodes), digest (what failed, was late, was slow, since the last).';
comment on column pgrab.alert.after is 'How long a task may wait before `waiting` is reported.';
comment on column pgrab.alert.schedule is 'When `alive` and `digest` are told: as the schedule of a task.';
comment on column pgrab.alert.timezone is 'The time zone of the schedule.';
comment on column pgrab.alert.owner is 'Only tasks of this owner. Null: of any.';
comment on column pgrab.alert.task_like is
  'Only tasks whose name (or key, when there is none) is LIKE this; only limits whose key is. Null: any.';
comment on column pgrab.alert.source is 'Only tasks of this source. Null: of any.';
comment on column pgrab.alert.node_like is
  'For node_down and node_up: only nodes whose name is LIKE this. Null: any.';
comment on column pgrab.alert.template is
  'The task to insert, a JSON object of columns of pgrab.task: kind, command, args and so on. It is given the'
  ' facts as its parameters.';
comment on column pgrab.alert.enabled is 'False: the alert is off.';
comment on column pgrab.alert.told_at is 'System: since when the next digest tells.';
comment on column pgrab.alert.next_at is 'System: when `alive` or `digest` is told next.';
comment on column pgrab.alert.set_by is 'Who made it; owner of the tasks it inserts.';
-- Serves: finish_one(), alert().  Mostly empty.
create index alert_succeeded_idx on pgrab.alert (name) where enabled and 'succeeded' = any (events);
comment on index pgrab.alert_succeeded_idx is 'The alerts that want to hear of successes.';
create index alert_next_idx on pgrab.alert (next_at) where next_at is not null;
comment on index pgrab.alert_next_idx is 'Alerts by the clock: alive, digest.';

-- One row from the first failure to the next success, so that a failure is reported once, and how long it has
-- lasted is known without reading the history.  A plain one-shot task that no alert covers has no row: it is
-- parked, which says as much.
create table pgrab.incident (
  task_id      bigint      not null,
  event        text        not null,
  since        timestamptz not null,
  failures     bigint      not null default 1,
  fault        text,
  constraint incident_pkey primary key (task_id),
  constraint incident_event_check check (event in ('failed', 'parked', 'overdue'))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab.incident is
  'Tasks whose last fire did not succeed, or that are late. Read it through pgrab.failing and pgrab.overdue.';
comment on column pgrab.incident.task_id is 'The task.';
comment on column pgrab.incident.event is 'How it began: failed, parked, overdue.';
comment on column pgrab.incident.since is 'When it began.';
comment on column pgrab.incident.failures is 'Fires that have failed since.';
comment on column pgrab.incident.fault is 'Why an alert could not be inserted. Null: all is well.';

-- The same for nodes, from the moment that one is declared dead until its name registers again.
create table pgrab.node_incident (
  node_id bigint      not null,
  since   timestamptz not null,
  fault   text,
  constraint node_incident_pkey primary key (node_id)
);
comment on table pgrab.node_incident is
  'Nodes that have died or fallen silent and are not back yet. Nodes that were stopped are not among them.';
comment on column pgrab.node_incident.node_id is 'The node.';
comment on column pgrab.node_incident.since is 'When it was last heard from.';
comment on column pgrab.node_incident.fault is 'Why an alert could not be inserted. Null: all is well.';

-- What people are to be told of.  Written where it happens, in that transaction; the alerts are inserted
-- later, because they are others' texts and may be many.
create table pgrab_internal.notice (
  id       bigint      generated always as identity,
  task_id  bigint,
  node_id  bigint,
  next_at  timestamptz not null default clock_timestamp(),
  tries    integer     not null default 0,
  event    text        not null,
  facts    jsonb       not null,
  template jsonb,
  after    text,
  alert    text,
  constraint notice_pkey primary key (id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
comment on table pgrab_internal.notice is
  'Events of tasks and nodes whose alerts have yet to be inserted: see pgrab_internal.notices_tell().';
comment on column pgrab_internal.notice.id is 'Number of the notice.';
comment on column pgrab_internal.notice.task_id is 'The task. Null: it is of a node.';
comment on column pgrab_internal.notice.node_id is 'The node. Null: it is of a task.';
comment on column pgrab_internal.notice.next_at is 'When it is its turn: it takes turns with the others.';
comment on column pgrab_internal.notice.tries is
  'How often its alert could not be inserted: a lock, or a full quota.';
comment on column pgrab_internal.notice.event is 'What has happened, as in pgrab.alert.events.';
comment on column pgrab_internal.notice.facts is 'What is known of it, as strings.';
comment on column pgrab_internal.notice.template is
  'The on_failure of the task, if it is to be told of this.';
comment on column pgrab_internal.notice.after is
  'Alerts are inserted in the order of their names: up to this one they have been. Null: none has.';
comment on column pgrab_internal.notice.alert is
  'The only alert that is still to be inserted; '''' is the template. Null: all behind `after`.';
-- Serves: notices_tell().
create index notice_next_idx on pgrab_internal.notice (next_at);
comment on index pgrab_internal.notice_next_idx is 'Whose turn it is.';
revoke all on pgrab_internal.notice from public;

-- Serves: pgrab.overdue.  Claim, start and finish write none of its columns.
create index task_expect_idx on pgrab.task (id) where expect_within is not null;
comment on index pgrab.task_expect_idx is 'Tasks with expect_within.';

-- Serves: pgrab_tool.id_of(), `pgrab tasks --name`; prefixes, too.  A task without a name is not in it.
create index task_name_idx on pgrab.task (name text_pattern_ops) where name is not null;
comment on index pgrab.task_name_idx is 'Tasks by their names.';

-- Serves: pgrab_internal.runs_leave(), days_drop().
create index task_keep_idx on pgrab.task (id) where keep is not null;
comment on index pgrab.task_keep_idx is 'Tasks that say how long their history is kept.';

create table pgrab.token (
  hash         bytea       not null,
  role         text        not null,
  name         text        not null default '',
  created_by   text        not null default current_user,
  created_at   timestamptz not null default now(),
  expires_at   timestamptz not null,
  last_used_at timestamptz,
  constraint token_pkey primary key (hash)
) with (fillfactor = 70);
revoke all on pgrab.token from public;
comment on table pgrab.token is
  'Tokens of pgrab serve: a request with one acts as its role. Made by pgrab.token_add(); deleting the row '
  'revokes it at once.';
comment on column pgrab.token.hash is 'SHA-256 of the token; the token itself is not stored.';
comment on column pgrab.token.role is 'The database role that its bearer acts as.';
comment on column pgrab.token.name is 'What or who it is for.';
comment on column pgrab.token.created_by is 'Who made it.';
comment on column pgrab.token.created_at is 'When.';
comment on column pgrab.token.expires_at is 'When it stops being valid.';
comment on column pgrab.token.last_used_at is 'When it was last used, to the minute.';
