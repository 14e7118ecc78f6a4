-- What is changed in chains, where the history has many days.
set client_min_messages = warning;
-- committed, so that what a statement locks can be told from what the test has made
do $$ begin
  perform pgrab_internal.day_make('run', pgrab_internal.today() - i) from generate_series(1, 100) i;
end $$;
begin;
\ir chain.inc
select plan(11);
create function pg_temp.days() returns bigint language sql as $$
  select count(distinct l.relation) from pg_locks l join pg_class c on c.oid = l.relation
  where l.pid = pg_backend_pid() and c.relkind = 'r' and c.relname like 'run\_2%'
$$;
-- without the history, which would be locked by the test itself
create or replace function pg_temp.chain(p_id bigint default null) returns text language sql as $$
  select string_agg(t.id || ' ' || t.status, ', ' order by t.id) from pgrab.task t
$$;

insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, parent_id, max_attempts) overriding system value values
  (3, 'noop', 1, 1), (4, 'noop', 2, 1);
select is(pg_temp.ends(1), '2 scheduled, 3 scheduled, 4 waiting', 'a link has ended and left');
select is(pg_temp.ends(2), '3 scheduled, 4 scheduled', 'and one of another chain');
insert into pgrab.task (id, kind, parent_id) overriding system value values (5, 'noop', 3);
insert into pgrab.edge values (4, 5);
select cmp_ok(pg_temp.days(), '<=', 7::bigint, 'two chains that become one look at these days');
select is(pg_temp.ends(4, 'failed'), '3 scheduled, 4 parked, 5 skipped',
  'what a parked link holds up is skipped');
select from pgrab.retry(4);
select is(pg_temp.ends(4), '3 scheduled, 5 waiting', 'and comes back');
delete from pgrab.edge;
select cmp_ok(pg_temp.days(), '<=', 7::bigint, 'a retry and a chain that becomes two look at them');
insert into pgrab.task (id, kind, schedule, max_runs) overriding system value values
  (6, 'noop', '@every 1s', 1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (7, 'noop', 6);
select is(pg_temp.ends(6), '3 scheduled, 5 waiting, 6 done, 7 scheduled', 'the last fire of a chain');
select is(pg_temp.ends(7), '3 scheduled, 5 waiting', 'ends it');
select cmp_ok(pg_temp.days(), '<=', 7::bigint, 'and looks at them, too');
select is((select string_agg(r.task_id || ' ' || r.outcome || coalesce(' ' || r.ended, ''), ', '
    order by r.task_id, r.finished_at) from pgrab.run r),
  '1 succeeded done, 2 succeeded done, 4 failed, 4 succeeded done, 5 skipped, 6 succeeded done, '
  '7 succeeded done', 'all of it is on record');
select is((select count(distinct r.chain_id) from pgrab.run r where r.task_id in (1, 2)), 1::bigint,
  'what had left before is of the one chain');
select * from finish();
rollback;
