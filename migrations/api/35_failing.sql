-- What is going wrong: tasks whose last fire did not succeed, tasks that have not succeeded for too long, and
-- the cluster in one row.
--
-- Cost: failing reads pgrab.incident (one row per failing task) and what cannot run (task_idle_idx); overdue
-- reads the tasks that have an expect_within (task_expect_idx).

create or replace view pgrab.failing as
select t.id, coalesce(t.name, t.key) as name, t.kind, t.status,
  date_trunc('second', coalesce(i.since, t.last_finished_at)) as since, coalesce(i.failures, 1) as failures,
  t.last_outcome as outcome, pgrab_internal.brief(t.last_error, 28) as error
from (
  select i.task_id from pgrab.incident i where i.event <> 'overdue'
  union all
  select p.id from pgrab.task p
  where p.due_at is null and p.status = 'parked' and not exists (
    select from pgrab.incident i where i.task_id = p.id and i.event <> 'overdue')) f
  join pgrab.task t on t.id = any (array[f.task_id]) -- by its key, whatever the statistics say
  left join pgrab.incident i on i.task_id = t.id and i.event <> 'overdue';
comment on view pgrab.failing is
  'Tasks and schedules whose last fire did not succeed: since when, how often in a row, and why.';
comment on column pgrab.failing.id is 'Number of the task.';
comment on column pgrab.failing.name is 'Its name, or its key.';
comment on column pgrab.failing.kind is 'What carries it out.';
comment on column pgrab.failing.status is
  'parked: it waits for a person; otherwise its next fire is planned.';
comment on column pgrab.failing.since is 'When the first of these fires failed.';
comment on column pgrab.failing.failures is 'Fires that have failed in a row.';
comment on column pgrab.failing.outcome is 'Outcome of the last run.';
comment on column pgrab.failing.error is
  'The first 28 characters of its error. All of it: pgrab.task.last_error, `pgrab show ID`.';

create or replace view pgrab.overdue as
select t.id, coalesce(t.name, t.key) as name, t.kind,
  date_trunc('second', t.succeeded_at) as last_success, t.expect_within,
  date_trunc('second', statement_timestamp() - coalesce(t.succeeded_at, t.created_at) - t.expect_within)
    as overdue_by,
  case t.status when 'running'
    then format('runs for %s', date_trunc('second', statement_timestamp() - t.started_at))
    else pgrab_internal.brief(pgrab_internal.why(row(t.*)::pgrab_internal.task), 36) end as why
from pgrab.task t
where t.expect_within is not null
  and coalesce(t.succeeded_at, t.created_at) + t.expect_within < statement_timestamp();
comment on view pgrab.overdue is
  'Tasks that have not succeeded within their expect_within: missing, failing or running too long.';
comment on column pgrab.overdue.id is 'Number of the task.';
comment on column pgrab.overdue.name is 'Its name, or its key.';
comment on column pgrab.overdue.kind is 'What carries it out.';
comment on column pgrab.overdue.last_success is
  'When it last succeeded. Null: never; then its creation counts.';
comment on column pgrab.overdue.expect_within is 'It should succeed at least this often.';
comment on column pgrab.overdue.overdue_by is 'How long ago a success was due.';
comment on column pgrab.overdue.why is 'What it is doing or waiting for.';

-- Each count stops at ten thousand.
create or replace function pgrab_internal.counts_due(
  out due bigint, out late bigint, out oldest_late interval)
language sql stable set jit = off
begin atomic
  select least(d.due + l.due, 10000), least(d.late + l.late, 10000),
    case when d.late + l.late > 0
      then date_trunc('second', statement_timestamp() - least(d.oldest, l.oldest)) end
  from pgrab_internal.due_counts(pgrab_internal.sees_only()) d, (
    select count(*) as due, min(x.fire_at) as oldest,
      count(*) filter (where x.fire_at <= statement_timestamp() - interval '2 s') as late
    from (select greatest(t.fire_at, t.created_at) as fire_at from pgrab_tool.in_line() t limit 10000) x) l;
end;
comment on function pgrab_internal.counts_due is
  'How many tasks are due and have not started, how many of them for more than two seconds, each at most '
  '10000, and for how long the first of these.';

create or replace function pgrab_internal.counts_runs(p_within interval, out runs bigint, out failures bigint)
language sql stable set jit = off
begin atomic
  select (
    select count(*) from (
      select from pgrab.run r
      where r.finished_at > statement_timestamp() - p_within
        and r.outcome not in ('skipped', 'missed', 'waited', 'preempted')
      limit 10000) x), (
    select count(*) from (
      select from pgrab.run r
      where r.finished_at > statement_timestamp() - p_within
        and r.outcome <> 'succeeded' and pgrab_tool.run_is_failure(r.outcome)
      limit 10000) x);
end;
comment on function pgrab_internal.counts_runs is
  'How many runs have ended lately, and how many of all of them failed; each at most 10000.';

-- Reads at most fifty thousand of the tasks that cannot run.
create or replace function pgrab_internal.counts_parked(out parked bigint, out failing bigint)
language sql stable set jit = off
begin atomic
  with parked as materialized (
    select i.id from (select t.id, t.status from pgrab.task t where t.due_at is null limit 50000) i
    where i.status = 'parked'),
  failing as materialized (
    select i.task_id from pgrab.incident i where i.event <> 'overdue' limit 10000)
  select (select count(*) from parked), (select count(*) from failing) + (
    select count(*) from parked p where not exists (
      select from pgrab.incident i where i.task_id = p.id and i.event <> 'overdue'));
end;
comment on function pgrab_internal.counts_parked is 'How many tasks are parked, and how many are failing.';

create or replace function pgrab_tool.count_waiting() returns bigint
language sql stable
return (select count(*) from (select from pgrab.wait limit 10000) w);
comment on function pgrab_tool.count_waiting is
  'How many tasks wait for a signal, an answer, a time in their work, or members; ten thousand or more.';

create or replace view pgrab.overview as
select n.nodes_up, d.due, r.running, least(p.parked, 10000) as parked, d.late, d.oldest_late,
  m.runs as runs_1m, m.failures as failed_1m, h.runs as runs_1h, h.failures as failed_1h,
  least(p.failing, 10000) as failing, o.overdue
from (select count(*) as nodes_up from pgrab.node n where n.state = 'up' and n.live) n,
  (select count(*) as running from pgrab_tool.in_hand() t where t.status = 'running') r,
  pgrab_internal.counts_due() d, pgrab_internal.counts_parked() p,
  pgrab_internal.counts_runs('1 minute') m, pgrab_internal.counts_runs('1 hour') h,
  (select count(*) as overdue from (select from pgrab.overdue limit 10000) x) o;
comment on view pgrab.overview is
  'The cluster in one row. It is cheap however many tasks there are: apart from nodes and running tasks, '
  'counts stop at ten thousand, which means that many or more.';
comment on column pgrab.overview.nodes_up is 'Nodes that are up and alive.';
comment on column pgrab.overview.due is 'Tasks that are due and have not started.';
comment on column pgrab.overview.running is 'Tasks that are running.';
comment on column pgrab.overview.parked is
  'Tasks out of attempts, waiting for a person, among the first fifty thousand that cannot run.';
comment on column pgrab.overview.late is
  'Tasks that have been due for more than two seconds and have not started: pgrab.late says why.';
comment on column pgrab.overview.oldest_late is 'How long the longest of them has been waiting.';
comment on column pgrab.overview.runs_1m is 'Runs that ended in the last minute.';
comment on column pgrab.overview.failed_1m is 'Runs that failed, timed out or were lost in that time.';
comment on column pgrab.overview.runs_1h is 'Runs that ended in the last hour.';
comment on column pgrab.overview.failed_1h is 'Runs that failed, timed out or were lost in that time.';
comment on column pgrab.overview.failing is 'Tasks whose last fire did not succeed: pgrab.failing.';
comment on column pgrab.overview.overdue is
  'Tasks that have not succeeded within their expect_within: pgrab.overdue.';
