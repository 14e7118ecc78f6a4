-- A run that gave way: no attempt, no failure, no missed fire; what it had is spared the next one.
begin;
select plan(16);

select throws_ok(
  $$insert into pgrab.task (kind, preemptible, delivery) values ('noop', true, 'at_most_once')$$,
  '22023', 'task preemptible cannot be ''true''');
create function pg_temp.ran(
  p_outcome text, p_for interval, p_retry bigint default null, p_meanwhile text default '') returns void
language plpgsql as $$
begin
  update pgrab.task set status = 'running', attempt = attempt + 1, version = version + 1, incarnation = 7,
    node_id = 1, claimed_at = clock_timestamp(), started_at = clock_timestamp() - p_for;
  execute p_meanwhile;
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

-- Given another time while it ran: it is resumed all the same, and that time is its next fire.
create function pg_temp.anew(p_schedule text default null) returns void language sql as $$
  delete from pgrab.task;
  insert into pgrab.task (kind, preemptible, run_at, schedule)
  values ('noop', true, now() - interval '1 h', p_schedule)
$$;
create function pg_temp.plan() returns text language sql as $$
  select concat_ws(' ', t.status, t.attempt, t.fires, case when t.fire_at = now() - interval '1 h' then 'same'
    else extract(year from t.fire_at)::text end, case when t.due_at <= clock_timestamp() then 'at once' end)
  from pgrab.task t
$$;
select pg_temp.anew();
select pg_temp.ran('preempted', '1 s', null, $$update pgrab.task set run_at = '2099-06-01Z'$$);
select is(pg_temp.plan(), 'scheduled 0 0 same at once', 'moved while it ran, it goes on at once');
select pg_temp.ran('succeeded', '1 s');
select is(pg_temp.plan(), 'scheduled 0 1 2099', 'and runs again when it was moved to');
select pg_temp.anew();
select pg_temp.ran('lost', '1 s', 1, $$update pgrab.task set run_at = '2099-06-01Z'$$);
select is(pg_temp.plan(), 'scheduled 0 0 same at once', 'so does one that was lost because of another');
select pg_temp.anew('@every 1h');
select pg_temp.ran('preempted', '1 s', null, $$update pgrab.task set run_at = '2099-06-01Z', name = 'x'$$);
select pgrab.cancel(id) from pgrab.task;
select is(pg_temp.plan(), 'scheduled 0 0 2099', 'given up before it goes on, that time stays');
select pg_temp.anew();
select pg_temp.ran('failed', '1 s', null, $$update pgrab.task set run_at = '2099-06-01Z'$$);
select is(pg_temp.plan(), 'scheduled 0 1 2099', 'a failure ends the run');
select pg_temp.anew();
select pg_temp.ran('preempted', '1 s', null,
  $$update pgrab.task set command = 'new', run_at = '2099-06-01Z'$$);
select is(pg_temp.plan(), 'scheduled 0 1 2099', 'what is not its text any more cannot go on');
select pg_temp.anew();
select pg_temp.ran('preempted', '1 s', null, $$update pgrab.task set command = 'new'$$);
select pg_temp.ran('succeeded', '1 s');
select is_empty('select from pgrab.task', 'a new text runs once');
select * from finish();
rollback;
