-- What can never start any more is skipped in slices, and the end of a run does one of them.
begin;
\ir chain.inc
select plan(18);

create function pg_temp.over(p_id bigint, p_outcome text default 'succeeded') returns void language sql as $$
  select pg_temp.ends(p_id, p_outcome)
$$;
create function pg_temp.line(p_from bigint, p_n bigint) returns void language sql as $$
  insert into pgrab.task (id, kind, parent_id, max_attempts) overriding system value
  select i, 'noop', nullif(i - 1, p_from - 1), 1 from generate_series(p_from, p_from + p_n - 1) i order by i
$$;
create function pg_temp.statuses() returns text language sql as $$
  select string_agg(format('%s %s', n, status), ', ' order by status)
  from (select status, count(*) as n from pgrab.task group by status) t
$$;
create function pg_temp.ticks(p_most integer) returns bigint language plpgsql as $$
declare
  n integer := 0;
begin
  while n < p_most and pgrab_internal.chain_tick_one((
    select min(s.chain) from pgrab.skipping s)) loop n := n + 1; end loop;
  return n;
end $$;

-- a line whose root fails, with a link that waits for any end of the last one and of another
select pg_temp.line(1, 5000);
insert into pgrab.task (id, kind) overriding system value values (6001, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value
values (6002, 'noop', 6001, 'always');
insert into pgrab.edge values (5000, 6002, 'always');
select pg_temp.over(6001);
select pg_temp.over(1, 'failed');
select is(pg_temp.statuses(), '1 parked, 1001 skipped, 3999 waiting', 'the end of the run skips a slice');
select is((select count(*) from pgrab.run where outcome = 'skipped'), 1001::bigint, 'on record');
select is((select string_agg(s.task_id || ' ' || s.status, ',') from pgrab.skipping s), '1002 skipped',
  'the rest is left to a node');
select throws_ok('select pgrab.retry(1)', '55000', 'what hangs below task 1002 is being skipped');
select throws_ok('insert into pgrab.edge values (3000, 4000)', '55000',
  'what hangs below task 1002 is being skipped');
select is(pg_temp.ticks(2) || ' ' || pg_temp.statuses(), '2 1 parked, 3001 skipped, 1999 waiting',
  'which goes on with it');
select pg_temp.ticks(100);
select is(pg_temp.statuses(), '1 parked, 1 scheduled, 4999 skipped',
  'until all is told, and what accepts any end starts');
select is((select count(*) from pgrab.skipping), 0::bigint, 'nothing is left');
select count(*) from pgrab.retry(1);
select is(pg_temp.statuses(), '2 scheduled, 4999 waiting', 'now the failed link can be tried again');
select pg_temp.fresh();

-- many children of one link
insert into pgrab.task (id, kind, max_attempts) overriding system value values (1, 'noop', 1);
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value
select i, 'noop', 1, case when i <= 2500 then 'success' else 'always' end from generate_series(2, 2600) i;
select pg_temp.over(1, 'failed');
select is(pg_temp.statuses(), '1 parked, 1000 skipped, 1599 waiting', 'a wide one, too');
select pg_temp.ticks(100);
select is(pg_temp.statuses(), '1 parked, 100 scheduled, 2499 skipped', 'those that accept any end start');
select pg_temp.fresh();

-- links that leave: what waited for a failure
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values (2, 'noop', 1, 'failure');
insert into pgrab.task (id, kind, parent_id) overriding system value
select i, 'noop', i - 1 from generate_series(3, 3000) i order by i;
select pg_temp.over(1);
select is(pg_temp.statuses(), '1998 waiting', 'skipped links of a chain that runs once leave');
select pg_temp.ticks(100);
select is((select count(*) from pgrab.task) + (select count(*) from pgrab.chain), 0::bigint,
  'with the last one, the chain');
select pg_temp.fresh();

-- a chain with a schedule goes on when all is counted
select pg_temp.line(1, 2500);
update pgrab.task set schedule = '@every 1h' where id = 1;
select pg_temp.over(1, 'failed');
select is((select c.pending from pgrab.chain c), 1498, 'a run is not over before all is skipped');
select pg_temp.ticks(100);
select is(pg_temp.statuses(), '1 scheduled, 2499 waiting', 'then the next fire comes');

-- what is left goes with the run
select pg_temp.over(1, 'failed');
select is((select count(*) from pgrab.skipping), 1::bigint, 'again something is left');
select count(*) from pgrab.cancel(1);
select is((select count(*) from pgrab.skipping), 0::bigint, 'a cancelled run leaves nothing');
select is(pg_temp.statuses(), '1 scheduled, 2499 waiting', 'to the next one');

select * from finish();
rollback;
