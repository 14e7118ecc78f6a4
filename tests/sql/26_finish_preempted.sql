-- A run that gave way: no attempt, no failure, no missed fire; what it had is spared the next one.
begin;
select plan(9);

select throws_ok(
  $$insert into pgrab.task (kind, preemptible, delivery) values ('noop', true, 'at_most_once')$$,
  '22023', 'task preemptible cannot be ''true''');
create function pg_temp.ran(p_outcome text, p_for interval, p_retry bigint default null) returns void
language plpgsql as $$
begin
  update pgrab.task set status = 'running', attempt = attempt + 1, version = version + 1, incarnation = 7,
    node_id = 1, claimed_at = clock_timestamp(), started_at = clock_timestamp() - p_for;
  perform pgrab_internal.finish((array_agg(t.id), array_agg(t.version), array_agg(t.incarnation),
      array[extract(epoch from p_for) * 1e6]::bigint[], array[0]::bigint[], array[p_outcome],
      array[null]::int[], array[null]::text[], array[false], array['because']::text[], array[p_retry],
      array[null]::pgrab_internal.cost[])::pgrab_internal.outcomes, 1, 'n1')
  from pgrab.task t;
end $$;
insert into pgrab.task (kind, preemptible, run_at, max_attempts)
values ('noop', true, now() - interval '1 d', 1);
select pg_temp.ran('preempted', '10 s');
select results_eq($$select status, attempt, failures, runs, last_outcome, gave_way, settled from pgrab.task$$,
  $$values ('scheduled', 0, 0::bigint, 1::bigint, 'preempted', interval '10 s', true)$$, 'it is tried again');
select ok((select due_at <= now() from pgrab.task), 'at once');
select results_eq($$select outcome, attempt from pgrab.run$$, $$values ('preempted', 1)$$,
  'the history has it');
select is((select count(*) from pgrab.failing), 0::bigint, 'nothing is failing');
select pg_temp.ran('preempted', '15 s');
select is((select gave_way from pgrab.task), interval '25 s', 'what was lost adds up');
select pg_temp.ran('preempted', '1 s', -1);
select is((select status from pgrab.task), 'scheduled', 'whatever its handler said of another attempt');
select pg_temp.ran('failed', '1 s');
select results_eq($$select status, attempt, failures, gave_way from pgrab.task$$,
  $$values ('parked', 1, 1::bigint, null::interval)$$, 'until a run has ended otherwise');
select is((select (pgrab.definition(id)) ->> 'preemptible' from pgrab.task), 'true',
  'its definition says so');
select * from finish();
rollback;
