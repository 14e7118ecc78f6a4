-- Chains come together, and apart.
begin;
\ir chain.inc
select plan(10);
set local timezone = 'UTC';

-- two chains that have begun become one; and apart again
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (11, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (3, 'noop', 1), (12, 'noop', 11), (13, 'noop', 12);
select pg_temp.ends(1); select pg_temp.ends(11, 'succeeded', 'of 11');
insert into pgrab.edge values (2, 13);
select is((select string_agg(distinct chain::text, ',') || ' ' || count(*) from pgrab.task),
  (select chain || ' 4' from pgrab.chain), 'an edge between two chains that have begun');
select is((select count(distinct chain_id) from pgrab.run), 1::bigint, 'makes them one, with their history');
delete from pgrab.edge;
select is((select string_agg(id || ' ' || c, ', ' order by id)
    from (select id, dense_rank() over (order by chain) as c from pgrab.task) t),
  '2 1, 3 1, 12 2, 13 2', 'apart again: what hangs together over a link that has left stays together');
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 12), 'of 11',
  'and keeps what that has printed');
select pg_temp.ends(2); select pg_temp.ends(12); select pg_temp.ends(3); select pg_temp.ends(13);
select is(pg_temp.chain() || (select count(*) from pgrab.chain), 'gone0', 'and each comes to its end');
select pg_temp.fresh();

-- taken apart
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 2);
update pgrab.task set parent_id = null where id = 2;
select is((select string_agg(id || ' ' || dense_rank, ', ' order by id)
    from (select id, dense_rank() over (order by chain) from pgrab.task) t),
  '1 1, 2 2, 3 2', 'a part that hangs on nothing else is a chain of its own');
select is(pg_temp.ends(1), '2! 3.', 'and they end apart');
select pg_temp.fresh();

-- taken apart over links that have left
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (11, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values
  (2, 'noop', 1), (12, 'noop', 11), (13, 'noop', 11);
insert into pgrab.edge values (2, 13);
select pg_temp.ends(11, 'succeeded', 'out of 11');
delete from pgrab.edge;
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 12), 'out of 11',
  'the part keeps its history');
select is((select string_agg(task, '/' order by path) from pgrab.chains where root = 11), '#11/  #12/  #13',
  'and its picture');
select pg_temp.fresh();
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 2);
select pg_temp.ends(1, 'failed');
update pgrab.task set parent_id = null where id = 2;
select is((select string_agg(id::text, ' ') || ' ' || (select count(*) from pgrab.chain) from pgrab.task),
  '1 1', 'a part that has been skipped leaves');
select pg_temp.fresh();

select * from finish();
rollback;
