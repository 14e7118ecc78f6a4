-- How long tasks usually take: pgrab.task.durations.
begin;
select plan(16);
create function pg_temp.known(p_seconds float8[]) returns bytea language plpgsql as $$
declare
  v_known bytea;
  s float8;
begin
  foreach s in array p_seconds loop
    v_known := pgrab_internal.durations_add(v_known, s * interval '1 s');
  end loop;
  return v_known;
end $$;

select is(pgrab_internal.durations_add(null, null), null, 'of a run that did not start nothing is known');
select is(pgrab_internal.durations_add('\x07', null), '\x07', 'and what was known stays');
select is(pgrab_tool.usual(null), null, 'no run, no duration');
select is(length(pg_temp.known(array(select 5 from generate_series(1, 100)))), 32, 'the last 32 are kept');
select is(pgrab_tool.usual(pg_temp.known(array[100] || array(select 1 from generate_series(1, 32))), 1),
  pgrab_tool.usual(pg_temp.known('{1}')), 'the oldest is left out');
select is((select max(abs(extract(epoch from pgrab_tool.usual(pg_temp.known(array[s]))) / s - 1)) < 0.1
  from (select 0.02 * power(1.013, n) as s from generate_series(0, 1500) n) x), true,
  'each is known to within some percent, from 20 ms to 60 days');
select is(pgrab_tool.usual(pg_temp.known('{0}')), interval '1 ms', 'the shortest');
select ok(pgrab_tool.usual(pg_temp.known('{1e9}')) > interval '365 days', 'the longest');
select is(pgrab_tool.usual(pg_temp.known('{-5}')), interval '1 ms', 'a clock that was set back');
select ok(pgrab_tool.usual(pg_temp.known('{60,60,60,3600,3600}')) between '57 s' and '63 s', 'the median');
select ok(pgrab_tool.usual(pg_temp.known('{60,60,60,60,3600}'), 0.95) > '55 minutes', '95 of 100');

-- a schedule
\ir alert.inc
insert into pgrab.task (id, key, kind, schedule, max_attempts) overriding system value values
  (1, 'nightly', 'noop', '@every 1h', 1);
select pg_temp.ends(1, 'succeeded');
select ok((select t.usual between '0.9 s' and '1.1 s' from pgrab.tasks t where t.id = 1),
  'a success says how long it took');
select pg_temp.ends(1, 'failed');
select is((select length(t.durations) from pgrab.task t where t.id = 1), 1, 'a failure does not');
select is(pgrab_internal.slow_after(row(t.*)::pgrab_internal.task), null, 'what is slow, nobody knows yet')
from pgrab.task t where t.id = 1;
select pg_temp.ends(1, 'succeeded') from generate_series(1, 4);
select is(pgrab_internal.slow_after(row(t.*)::pgrab_internal.task), interval '10 s', 'ten seconds at least')
from pgrab.task t where t.id = 1;
update pgrab.task set durations = pg_temp.known('{60,60,60,60,60}') where id = 1;
select ok(pgrab_internal.slow_after(row(t.*)::pgrab_internal.task) between '2 min 50 s' and '3 min 10 s',
  'three times as long as usual')
from pgrab.task t where t.id = 1;
select * from finish();
rollback;
