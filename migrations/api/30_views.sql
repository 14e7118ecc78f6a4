-- Views for users, the command line and the web page.  A row fits a line of 120 columns in psql; times are
-- cut to the second; a task is shown by its name, or by its key when it has none.
--
-- Cost, with millions of tasks: running reads what nodes hold (pgrab.hold), due and late read the due tasks
-- (task_due_idx), parked reads what cannot run (task_idle_idx), nodes and ownership read only pgrab.node.  A
-- list can be long: give an id, a time or a LIMIT, which also ends the reading.  overview counts each thing
-- up to ten thousand.  history comes newest first and reads no more partitions than it must: `select * from
-- pgrab.history limit 20`, `... where finished_at > now() - interval '1 hour'`.  Time is
-- statement_timestamp(): stable, so that it can be an index condition, and not frozen by the transaction as
-- now() is.  Here a node counts as alive by the age of its heartbeat on the database's clock, for readers
-- only; nodes judge each other by pgrab.node.beat.

create or replace function pgrab_tool.durable() returns boolean
language sql stable
return current_setting('fsync')::boolean and current_setting('full_page_writes')::boolean
  and (current_setting('synchronous_commit') in ('on', 'remote_apply')
    or current_setting('synchronous_commit') <> 'off' and current_setting('synchronous_standby_names') = '');
comment on function pgrab_tool.durable is 'Does the server keep every commit through a crash?';

-- (Starts of at_most_once tasks set synchronous_commit themselves.)  An asynchronous standby may be promoted
-- without the last commits; one that is disconnected still has its slot.  Logical replicas are not promoted.
-- PL/pgSQL, so that it is planned once in a session and not for every heartbeat.
create or replace function pgrab_internal.may_lose(p_async boolean) returns text
language plpgsql stable as $$
begin
  return case
    when current_setting('fsync') <> 'on'
      then 'fsync is off: a crash of the server may lose what it acknowledged'
    when p_async or current_setting('synchronous_standby_names') <> '' then null
    when exists (select from pg_get_replication_slots() s where s.slot_type = 'physical')
      or exists (
        select from pg_stat_get_wal_senders() w cross join lateral pg_stat_get_activity(w.pid) r
        where r.application_name is distinct from 'pg_basebackup'
          and r.application_name is distinct from 'pg_receivewal'
          and not exists (
            select from pg_get_replication_slots() s where s.active_pid = w.pid and s.slot_type = 'logical'))
      then 'an asynchronous standby is attached: when promoted, it may lack commits that were acknowledged'
        || ' (set synchronous_standby_names on the server, or at_most_once_async = yes for a node)'
  end;
end $$;
comment on function pgrab_internal.may_lose is
  'Why the server could lose a start that it has acknowledged, asynchronous standbys accepted or not. Null: '
  'it could not.';

-- The gates are those of pgrab.explain().  (PL/pgSQL, so that it is planned once and not for every row of a
-- list.)
create or replace function pgrab_internal.why(t pgrab_internal.task) returns text
language plpgsql stable as $$
begin
  return (
    select g.why from pgrab_internal.gates(t, false) with ordinality g
    where g.why is not null order by g.ordinality limit 1);
end $$;
comment on function pgrab_internal.why is
  'Why a task is not running, in a few words: the first gate that is shut. Null: it is running.';

create or replace function pgrab.why(p_id bigint) returns text
language sql stable
return (select pgrab_internal.why(row(t.*)::pgrab_internal.task) from pgrab.task t where t.id = p_id);
comment on function pgrab.why(bigint) is
  'Why a task is not running, in a few words. Null: it is running, or has ended. More: pgrab.explain().';

create or replace function pgrab_tool.in_line() returns setof pgrab_internal.task
language sql stable
begin atomic
  select t.* from pgrab.task t
  where t.due_at is null and t.line is not null and not t.paused and t.fire_at <= statement_timestamp();
end;
comment on function pgrab_tool.in_line is 'Tasks that are due and wait in line for a limit or a quota.';

create or replace function pgrab_internal.brief(p_text text, p_length integer) returns text
language sql immutable parallel safe
return regexp_replace(left(regexp_replace(p_text, '[[:cntrl:]]+', ' ', 'g'), p_length + 1),
  '^(.{' || p_length - 3 || '}).{4}$', '\1...');
comment on function pgrab_internal.brief is
  'The beginning of a text as one line without control characters; ... at its end: there is more.';

create or replace view pgrab.tasks as
select t.id, coalesce(t.name, t.key) as name, t.kind, t.status, t.attempt,
  date_trunc('second', t.due_at) as due_at, (select n.name from pgrab.node n where n.id = t.node_id) as node,
  date_trunc('second', t.last_finished_at) as finished_at, pgrab_tool.usual(t.durations) as usual
from pgrab.task t
where not pgrab_internal.is_over(t.status)
  -- otherwise the history already has it
  or exists (select from pgrab.chain c where c.chain = t.chain and c.root is not null)
union all
select r.task_id, coalesce(r.name, r.key), r.kind, r.ended, r.attempt, null, r.node,
  date_trunc('second', r.finished_at), null
from pgrab.run r where r.ended is not null;
comment on view pgrab.tasks is
  'All tasks: live ones, and finished ones as long as the history has them. Definition and attempts of one: '
  '`pgrab show ID`.';
comment on column pgrab.tasks.id is 'Number of the task.';
comment on column pgrab.tasks.name is 'Its name, or its key.';
comment on column pgrab.tasks.kind is 'What carries it out.';
comment on column pgrab.tasks.status is
  'waiting, scheduled, claimed, running, parked; done, cancelled, skipped when it has ended.';
comment on column pgrab.tasks.attempt is 'Attempts started for the current fire.';
comment on column pgrab.tasks.due_at is
  'When a node looks at it next. Null: it cannot run now (parked, paused, waiting) or has ended.';
comment on column pgrab.tasks.node is 'The node that holds it, or ended it.';
comment on column pgrab.tasks.finished_at is 'When its last run ended.';
comment on column pgrab.tasks.usual is
  'How long it usually takes: the median of its last 32 successes. Null: it has not succeeded yet, or has '
  'ended.';

create or replace view pgrab.due as
select t.id, coalesce(t.name, t.key) as name, t.kind, t.priority, t.status, t.attempt,
  date_trunc('second', coalesce(t.due_at, greatest(t.fire_at, t.created_at))) as due_at,
  date_trunc('second', statement_timestamp() - coalesce(t.due_at, greatest(t.fire_at, t.created_at)))
    as overdue, n.name as node
from (
  select d.* from pgrab_tool.due_until(statement_timestamp(), '{scheduled,claimed}') d
  union all
  select l.* from pgrab_tool.in_line() l) t
left join pgrab.node n on n.id = t.node_id;
comment on view pgrab.due is 'Tasks that are due and have not started.';
comment on column pgrab.due.id is 'Number of the task.';
comment on column pgrab.due.name is 'Its name, or its key.';
comment on column pgrab.due.kind is 'What carries it out.';
comment on column pgrab.due.priority is 'Higher goes first.';
comment on column pgrab.due.status is 'scheduled, or claimed: a node holds it and has not started it.';
comment on column pgrab.due.attempt is 'Attempts started for this fire.';
comment on column pgrab.due.due_at is 'When it became due.';
comment on column pgrab.due.overdue is 'How long it has been due.';
comment on column pgrab.due.node is 'The node that claimed it.';

create or replace view pgrab.running as
select t.id, coalesce(t.name, t.key) as name, t.kind, t.attempt, n.name as node,
  date_trunc('second', statement_timestamp() - t.started_at) as running_for, t.timeout, l.progress,
  coalesce(pgrab_internal.brief(l.progress_text, 30), 'steps done: ' || t.steps) as progress_text,
  date_trunc('second', statement_timestamp() - l.stopping_at) as stopping
from pgrab_tool.in_hand() t
left join pgrab.node n on n.id = t.node_id
left join pgrab.live l
  on l.incarnation = t.incarnation and l.task_id = t.id and l.version = t.version
where t.status = 'running';
comment on view pgrab.running is
  'Tasks that are running. For their output see pgrab.output(id) or `pgrab logs ID`.';
comment on column pgrab.running.id is 'Number of the task.';
comment on column pgrab.running.name is 'Its name, or its key.';
comment on column pgrab.running.kind is 'What carries it out.';
comment on column pgrab.running.attempt is 'Which attempt.';
comment on column pgrab.running.node is 'The node that runs it.';
comment on column pgrab.running.running_for is 'How long it has been running.';
comment on column pgrab.running.timeout is 'When it has run for this long it is stopped.';
comment on column pgrab.running.progress is
  'How far it is, in percent, as reported by a line `pgrab: progress 42 copying` in its output. Null: it '
  'has not said.';
comment on column pgrab.running.progress_text is
  'What it is doing, as it reported; the first 30 characters. If it has not: how many steps (pgrab.step) its '
  'fire has done.';
comment on column pgrab.running.stopping is
  'How long ago it was told to stop. Until it has certainly ended, no node starts it again; `pgrab doctor` '
  'says what it waits for. Null: it was not told to stop.';

create or replace view pgrab.late as
select t.id, coalesce(t.name, t.key) as name, t.kind,
  date_trunc('second', coalesce(t.due_at, greatest(t.fire_at, t.created_at))) as due_at,
  date_trunc('second', statement_timestamp() - coalesce(t.due_at, greatest(t.fire_at, t.created_at)))
    as late_by,
  pgrab_internal.why(t) as why
from (
  select d.* from pgrab_tool.due_until(statement_timestamp() - interval '2 s', '{scheduled,claimed}') d
  union all
  select l.* from pgrab_tool.in_line() l
  where greatest(l.fire_at, l.created_at) <= statement_timestamp() - interval '2 s') t;
comment on view pgrab.late is
  'Tasks that have been due for more than two seconds and have not started: how long, and why.';
comment on column pgrab.late.id is 'Number of the task.';
comment on column pgrab.late.name is 'Its name, or its key.';
comment on column pgrab.late.kind is 'What carries it out.';
comment on column pgrab.late.due_at is 'When it became due.';
comment on column pgrab.late.late_by is 'How long it has been due.';
comment on column pgrab.late.why is 'Why it has not started, as far as the database can tell.';

create or replace view pgrab.parked as
select t.id, coalesce(t.name, t.key) as name, t.kind, t.attempt, t.last_outcome as outcome,
  date_trunc('second', t.last_finished_at) as parked_at, pgrab_internal.brief(t.last_error, 36) as error
from pgrab.task t where t.due_at is null and t.status = 'parked';
comment on view pgrab.parked is
  'Tasks out of attempts, waiting for a person. The whole error: pgrab.task.last_error, `pgrab show ID`.';
comment on column pgrab.parked.id is 'Number of the task.';
comment on column pgrab.parked.name is 'Its name, or its key.';
comment on column pgrab.parked.kind is 'What carries it out.';
comment on column pgrab.parked.attempt is 'Attempts it had.';
comment on column pgrab.parked.outcome is 'Outcome of the last attempt.';
comment on column pgrab.parked.parked_at is 'When the last attempt ended.';
comment on column pgrab.parked.error is 'The first 36 characters of its error.';

-- A noop has no started_at.
create or replace function pgrab_tool.run_waited(p_fire_at timestamptz, p_created_at timestamptz,
  p_claimed_at timestamptz, p_started_at timestamptz)
returns interval
language sql immutable parallel safe
return case when coalesce(p_started_at, p_claimed_at) is not null
  then greatest('0', coalesce(p_started_at, p_claimed_at) - greatest(p_fire_at, p_created_at)) end;
comment on function pgrab_tool.run_waited is
  'How long after its planned time, or after its INSERT if that was later, a run started. Null: it did not.';

create or replace view pgrab.history as
select r.task_id, coalesce(r.name, r.key) as name, r.kind, r.attempt, r.outcome, r.node, r.finished_at,
  round(extract(epoch from r.finished_at - r.started_at), 3) as seconds,
  case when r.attempt = 1 then round(extract(epoch from
    pgrab_tool.run_waited(r.fire_at, r.created_at, r.claimed_at, r.started_at)), 3) end as waited,
  pgrab_internal.brief(r.error, 30) as error
from pgrab.run r
order by r.finished_at desc;
comment on view pgrab.history is
  'Every attempt that has ended, newest first. For all details see pgrab.run or `pgrab show ID`.';
comment on column pgrab.history.task_id is 'The task.';
comment on column pgrab.history.name is 'Its name, or its key.';
comment on column pgrab.history.kind is 'What carried it out.';
comment on column pgrab.history.attempt is 'Which attempt at that fire.';
comment on column pgrab.history.outcome is
  'succeeded, failed, timed_out, cancelled, lost (its node died or stopped), skipped, missed, waited (for a '
  'signal, in its run), preempted (it gave way).';
comment on column pgrab.history.node is 'The node that ran it.';
comment on column pgrab.history.finished_at is
  'When it ended. Not cut to the second, so that a condition on it selects partitions.';
comment on column pgrab.history.seconds is 'How long it took.';
comment on column pgrab.history.waited is
  'How many seconds a first attempt started after its planned time, or after its INSERT if that was later.';
comment on column pgrab.history.error is 'The first 30 characters of the reason why it did not succeed.';

-- A text, so that it has the rights of pgrab's owner: who reads the view does not see all runs.
create or replace function pgrab_internal.why_stopping(p_incarnation bigint) returns text
language sql stable as $$
  select format('stopping %s run%s, the first for %s', count(*), case when count(*) > 1 then 's' else '' end,
    date_trunc('second', statement_timestamp() - min(l.stopping_at)))
  from pgrab.live l where l.incarnation = p_incarnation and l.stopping_at is not null having count(*) > 0
$$;
comment on function pgrab_internal.why_stopping is
  'Which runs of a node were told to stop and have not ended, in a few words. Null: none.';

create or replace view pgrab.events as
select date_trunc('second', e.at) as at, e.what, e.role, nullif(e.login, e.role) as login, e.task_id, e.task,
  pgrab_internal.brief(e.detail::text, 40) as detail
from pgrab.event e
order by e.at desc;
comment on view pgrab.events is
  'Who did what to tasks, limits and nodes, newest first. Full detail: pgrab.event.';
comment on column pgrab.events.at is 'When.';
comment on column pgrab.events.what is 'insert (of a schedule), edit, delete, pause, cancel and so on.';
comment on column pgrab.events.role is 'Who.';
comment on column pgrab.events.login is 'The role that had logged in, if it was a different one.';
comment on column pgrab.events.task_id is 'Which task it was done to.';
comment on column pgrab.events.task is 'Name or key of the task; or the limit or node it was done to.';
comment on column pgrab.events.detail is 'For an edit, {column: [old, new]}: the first 40 characters.';

-- As member_live() of the nodes: one with nothing in hand beats half as often.
create or replace function pgrab_internal.beats(p_in_hand integer, p_every interval, p_at timestamptz)
returns boolean
language sql stable
return statement_timestamp() - p_at < case when p_in_hand = 0 then 3.5 else 2.5 end * p_every;
comment on function pgrab_internal.beats is
  'Has a node sent its heartbeat at p_at lately enough to own shards?';

-- Of a long fault its end says most.
create or replace function pgrab_tool.pool_ill(
  p_name text, p_up integer, p_processes integer, p_fault text)
returns text
language sql immutable parallel safe
return case when p_up < p_processes then format('pool %s has %s of %s processes up: ', p_name, p_up,
  p_processes) || case when length(p_fault) > 200 then '...' || right(p_fault, 200) else p_fault end end;
comment on function pgrab_tool.pool_ill is
  'That the processes of a pool of handlers do not stay up. Null: they do, or have just been started.';

create or replace view pgrab.nodes as
select n.name,
  case when n.state <> 'down' and not n.live then 'silent' else n.state end as state,
  r.strategy, n.running || '/' || n.slots as busy,
  date_trunc('second', greatest(statement_timestamp() - n.heartbeat_at, '0')) as heartbeat_age,
  case when r.live then bit_count(n.shards) else 0 end as shards, n.claims_attempted as attempted,
  n.claims_won as won, n.claims_lost as lost, n.claims_stolen as stolen,
  case when r.live and min(r.strategy) filter (where r.live) over ()
      <> max(r.strategy) filter (where r.live) over () then 'mixed strategies'
    when n.state <> 'down' and n.ill then 'cannot record runs now: see its log'
    when n.state <> 'down' then coalesce(pgrab_internal.why_stopping(n.incarnation),
      case when n.fitness < 50 then 'fitness ' || n.fitness || '%: ' || n.fitness_why end, (
      select string_agg(pgrab_tool.pool_ill(p.name, p.up, p.processes, p.fault), '; ' order by p.name)
      from pgrab.pool p where p.node_id = n.id)) end as warning,
  (select string_agg(format('%s %s for %s', k.key, case k.key when 'weight' then to_jsonb(n.weight)
        else n.labels end, k.value #>> '{}'), ', ' order by k.key desc)
    from jsonb_each(n.own) k) as overridden
from pgrab.node n
cross join lateral (select regexp_replace(n.strategy, '^.*/', '') as strategy,
    n.state = 'up' and pgrab_internal.beats(n.in_hand, n.heartbeat_every, n.heartbeat_at) as live) r;
comment on view pgrab.nodes is
  'The nodes and their state. Kinds, labels, weights and more counters: pgrab.node.';
comment on column pgrab.nodes.name is 'Name of the node.';
comment on column pgrab.nodes.state is
  'up, draining (takes no new tasks), down; silent: no heartbeat for three times heartbeat_every and a '
  'second, so others take what is due, but it is not declared dead yet: that comes after its dead_after.';
comment on column pgrab.nodes.strategy is
  'Which rule it uses to pick tasks; for a file, its name without the folder.';
comment on column pgrab.nodes.busy is
  'Slots in use / slots that it has, at its last heartbeat. A task that runs takes one, or as many as it '
  'says.';
comment on column pgrab.nodes.heartbeat_age is 'How long ago its last heartbeat was.';
comment on column pgrab.nodes.shards is
  'How many of the 1024 shards it reads: pgrab.ownership says which. 0: it is draining or down, or has '
  'missed two heartbeats. Null: it has just started.';
comment on column pgrab.nodes.attempted is 'Tasks it tried to claim.';
comment on column pgrab.nodes.won is 'Tasks it claimed.';
comment on column pgrab.nodes.lost is
  'Tasks it tried to claim, but another node took first, or a user changed.';
comment on column pgrab.nodes.stolen is
  'How many of those it claimed came from shards of others, late by steal_after.';
comment on column pgrab.nodes.warning is
  'mixed strategies: live nodes divide the shards by different rules, so some shards have two owners or '
  'none. cannot record runs: so it takes no tasks. stopping: runs that were told to stop and have not ended; '
  '`pgrab doctor` says why. fitness: it is below 50 % (pgrab.node.fitness), so the node gets less. pool: '
  'processes of handlers do not stay up.';
comment on column pgrab.nodes.overridden is
  'What operators have set with UPDATE of pgrab.node, and what the node''s own setting says: weight 3 for 1.';

-- As nodes themselves see it: one that is draining, or has missed two heartbeats, owns nothing.
create or replace view pgrab.ownership as
with live as materialized (
  select n.name, n.shards, n.overlapping, regexp_replace(n.strategy, '^.*/', '') as strategy
  from pgrab.node n
  where n.state = 'up' and n.shards is not null
    and pgrab_internal.beats(n.in_hand, n.heartbeat_every, n.heartbeat_at))
select s.shard,
  case when o.owners > 1 and o.overlapping and o.owners = (select count(*) from live) then '(first come)'
    else o.node end as node, o.strategy
from generate_series(0, 1023) as s(shard)
cross join lateral (
  select count(*) as owners, bool_and(l.overlapping) as overlapping,
    string_agg(l.name, ', ' order by l.name) as node,
    string_agg(distinct l.strategy, ', ' order by l.strategy) as strategy
  from live l where get_bit(l.shards, s.shard) = 1) o;
comment on view pgrab.ownership is
  'Which node takes the tasks of which shard, as the nodes last reported: one row per shard. A task''s shard '
  'is pgrab.shard(id).';
comment on column pgrab.ownership.shard is 'Number of the shard, 0 to 1023.';
comment on column pgrab.ownership.node is
  'Its owner. Null: no live node owns it. (first come): the strategy lets all nodes read it. '
  'Several names: within two heartbeats of a change of nodes, or with mixed strategies.';
comment on column pgrab.ownership.strategy is 'The owner''s strategy.';

