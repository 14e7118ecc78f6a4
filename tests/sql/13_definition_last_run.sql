-- Lookups of a task's runs, where the history has many days.
set client_min_messages = warning;
-- committed, so that what a lookup locks can be told from what the test has made
do $$ begin
  perform pgrab_internal.day_make('run', pgrab_internal.today() - i) from generate_series(1, 100) i;
end $$;
insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, ended, kind, owner, name,
  output)
select i, 1, clock_timestamp() - d * interval '1 day', 'epoch', 1, o, case o when 'succeeded' then 'done' end,
  'noop', current_user, format('run of day %s', d), format('day %s', d)
from (values (501, 0, 'succeeded'), (502, 30, 'succeeded'), (503, 95, 'succeeded'), (504, 0, 'missed'),
  (504, 40, 'failed'), (505, 90, 'failed'), (505, 3, 'failed')) r(i, d, o);
insert into pgrab.task (id, kind, run_at) overriding system value
values (602, 'noop', now() + interval '1 h');
insert into pgrab.task (id, kind, command, parent_id) overriding system value
values (603, 'shell', 'true', 602);

-- days of the history that a statement locks: nobody else's lookups wait for the room in the lock table
create function pg_temp.days(p_statement text) returns bigint language plpgsql as $$
declare
  v_days bigint;
begin
  execute p_statement;
  select count(distinct l.relation) into v_days from pg_locks l join pg_class c on c.oid = l.relation
  where l.pid = pg_backend_pid() and c.relkind = 'r' and c.relname like 'run\_2%';
  return v_days;
end $$;

begin;
select plan(19);
select cmp_ok(pg_temp.days('select from pgrab.last_run(501)'), '<=', 6::bigint,
  'what ended today is looked for today');
select cmp_ok(pg_temp.days($$ select pgrab.definition_of(501, 1), pgrab.output(501),
    pgrab_internal.parent_status(501), pgrab_internal.may_see_ended(501, 'nobody') $$), '<=', 6::bigint,
  'its definition, its output, its end');
select cmp_ok(pg_temp.days('select from pgrab.result(501), pgrab.explain(501)'), '<=', 6::bigint,
  'its result, and why it does not run');
select cmp_ok(pg_temp.days('select from pgrab_internal.chain_of_ended(501)'), '<=', 6::bigint,
  'the chain that it has left');
select cmp_ok(pg_temp.days('select from pgrab.last_run(602)'), '<=', 6::bigint,
  'nothing is older than a live task');
select cmp_ok(pg_temp.days('select from pgrab.explain(603)'), '<=', 6::bigint, 'nor are its gates');
select cmp_ok(pg_temp.days($$ select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args, null)
    from pgrab.task t where t.id = 603 $$), '<=', 7::bigint,
  'what parents have printed is looked for since the chain began');
select cmp_ok(pg_temp.days('select from pgrab.cancel(602)'), '<=', 7::bigint, 'a cancel looks at these days');
insert into pgrab.task (id, kind, schedule, max_attempts) overriding system value
values (700, 'noop', '@daily', 1);
update pgrab.task set runs = 10, last_outcome = 'succeeded', succeeded_at = now() - interval '40 days',
  status = 'running', version = 7, node_id = 1, incarnation = 11, attempt = 1, started_at = now()
where id = 700;
select cmp_ok(pg_temp.days($$ select pgrab_internal.finish((array[700], array[7], array[11],
    array[2000000], array[1000000], array['failed'], null, null, null, array['boom'],
    null, null)::pgrab_internal.outcomes, 1, 'n') $$), '<=', 6::bigint,
  'the first failure of a schedule looks for no earlier success');
select cmp_ok(pg_temp.days('select from pgrab.last_run(502)'), '<=', 70::bigint,
  'what ended last month is not looked for last year');

select is((select r.name from pgrab.last_run(502) r), 'run of day 30', 'a run is found, however old it is');
select is((select r.name from pgrab.last_run(503, 'ended') r), 'run of day 95', 'in the oldest days as well');
select is((select r.name from pgrab.last_run(505) r), 'run of day 3', 'of several, the last');
select is((select r.name from pgrab.last_run(505, 'ended') r), null, 'or that with which the task ended');
select is((select r.name from pgrab.last_run(504, 'ran') r), 'run of day 40', 'or the last that was one');
select is((select r.name from pgrab.last_run(504, 'ran', 2) r), null, 'or that of one version');
select is((select count(*) from pgrab.last_run(77)), 0::bigint, 'none is none');

select is(pgrab.definition_of(503, 1), '{"kind": "noop", "name": "run of day 95"}', 'an old definition');
select is(pgrab.output(502), 'day 30', 'an old output');

select * from finish();
rollback;
