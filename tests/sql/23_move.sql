-- The door to a task's row: what is no move, what is left alone, and the rules for each row.
begin;
select plan(17);
set local timezone = 'UTC';

select is_empty(
  $$select t.event, t.was, t.becomes from pgrab_internal.transition t
    where not array[t.was, t.becomes]
      <@ '{waiting,scheduled,claimed,running,parked,done,cancelled,skipped}'$$,
  'the table knows the statuses');
select is_empty(
  $$select t.event, t.was from pgrab_internal.transition t where t.event <> 'count'
    group by 1, 2 having count(*) > 1$$,
  'an event leads from a status to one other, so that a join finds one');

create function pg_temp.go(p_id bigint, p_event text, p_run pgrab_internal.note default null) returns text
language sql as $$
  select (m).was || ' ' || (m).becomes || case when (m).gone then ' gone' else '' end
  from (select unnest(pgrab_internal.move(array_agg(
    pgrab_internal.move_to(t.id, t.version, p_event, p_run => p_run)))) as m
    from pgrab.task t where t.id = p_id) x
$$;
create function pg_temp.hold(p_id bigint, p_status text) returns void language sql as $$
  update pgrab.task set status = p_status, version = version + 1, node_id = 1, incarnation = 11, attempt = 1,
    claimed_at = now(), started_at = now() where id = p_id
$$;
insert into pgrab.limit (key, max_running) values ('few', 1);
insert into pgrab.task (id, kind, run_at, limit_key) overriding system value
select i, 'noop', '2100-01-01', case when i = 4 then 'few' end from generate_series(1, 8) i;

select throws_ok($$select pg_temp.go(1, 'succeed')$$, 'XX000',
  'task 1 is scheduled: succeed is no move from there', 'what is not in the table is refused');
select is(pgrab_internal.move(array[pgrab_internal.move_to(1, 0, 'cancel')])::text, '{}',
  'a decision about another version changes nothing');
select is(pgrab_internal.move(null)::text, '{}', 'and no decision does no work');

-- a claimed task
select pg_temp.hold(1, 'claimed');
select is(pg_temp.go(1, 'release'), 'claimed scheduled', 'it goes back');
select is((select row(status, node_id, incarnation, claimed_at, due_at)::text from pgrab.task where id = 1),
  '(scheduled,,,,"2100-01-01 00:00:00+00")', 'nobody holds it, and its time is as it was');
select pg_temp.hold(4, 'claimed');
select pg_temp.go(4, 'line');
select is((select status || coalesce(due_at::text, ' not due') from pgrab.task where id = 4),
  'scheduled not due', 'in line it has no time');

-- a run
select pg_temp.hold(2, 'running');
insert into pgrab.cancel_request (task_id, version, incarnation)
select 2, version, 11 from pgrab.task where id = 2;
select is(pg_temp.go(2, 'park', pgrab_internal.note('failed', 'why')), 'running parked', 'it fails for good');
select is((select row(t.runs, t.failures, t.last_outcome, t.last_error, t.due_at, t.needs, r.outcome,
      r.node_id, r.attempt, r.ended)::text
    from pgrab.task t join pgrab.run r on r.task_id = t.id where t.id = 2),
  '(1,1,failed,why,,,failed,1,1,)', 'counted, and in the history');
select is_empty('select from pgrab.cancel_request', 'nobody asks for its stop any more');
select pg_temp.hold(3, 'running');
select is(pg_temp.go(3, 'shelve', pgrab_internal.note('failed', 'why')), 'running parked',
  'not to be recorded');
select is((select t.last_error || ' ' || count(r.*)
    from pgrab.task t left join pgrab.run r on r.task_id = t.id
    where t.id = 3 group by t.id), 'why 0', 'it says why, and the history nothing');
select pg_temp.hold(5, 'running');
select is(pg_temp.go(5, 'succeed', pgrab_internal.note('succeeded', null)), 'running done gone',
  'it leaves');
select is((select r.ended || ' ' || (r.definition is null)::text from pgrab.run r where r.task_id = 5),
  'done true', 'and the history remembers it');

-- a pause is no status
select pg_temp.go(6, 'pause');
select is((select paused || coalesce(due_at::text, ' not due') from pgrab.task where id = 6), 'true not due',
  'paused: not due');
select pg_temp.go(6, 'resume');
select is((select paused || ' ' || due_at::text from pgrab.task where id = 6),
  'false 2100-01-01 00:00:00+00', 'resumed: due at its time');
select * from finish();
rollback;
