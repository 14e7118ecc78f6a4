-- The end of several runs in one transaction: all of them, each with its own times and output, or none.
begin;
\ir nodes.inc
select plan(9);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at, kinds) values
  ('n1', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 4, 'up', now(), '{sql}');
insert into pgrab.task (name, command, schedule) values
  ('a', 'select 1', null), ('b', 'select 1', '@every 1h'), ('c', 'select 1', null);
update pgrab.task t set status = 'running', version = 1000, node_id = n.id, incarnation = 4, attempt = 1,
  claimed_at = now(), started_at = now() from pgrab.node n;
select pgrab_internal.run_key_make(4);

create function pg_temp.finish(p_version bigint, p_incarnation bigint) returns void language sql as $$
  select pgrab_internal.finish_runs(array_agg(t.id order by t.id), array[1000, 1000, p_version],
    p_incarnation, array[3000000, 2000000, 1000000], array[2000000, 1000000, 0], array['x', null, 'z'],
    array[false, false, true], min(t.node_id), 'n1')
  from pgrab.task t
$$;
create function pg_temp.finish_proven(p_proofs text[]) returns void language sql as $$
  select pgrab_sql.finish_runs(array_agg(t.id order by t.id), array[1000, 1000, 1000], p_proofs,
    array[3000000, 2000000, 1000000], array[2000000, 1000000, 0], array['x', null, 'z'],
    array[false, false, true])
  from pgrab.task t
$$;
create function pg_temp.proofs() returns text[] language sql as $$
  select array_agg(pgrab_internal.run_proof(4, t.id, 1000) order by t.id) from pgrab.task t
$$;

select throws_ok('select pg_temp.finish(999, 4)', '40001',
  format('the run of task %s is no longer this node''s', (select t.id from pgrab.task t where t.name = 'c')));
select throws_ok('select pg_temp.finish(1000, 5)', '40001', null, 'nor those of another incarnation');
select throws_ok('select pg_temp.finish_proven(array[p[1], p[2], p[1]]) from pg_temp.proofs() p', '40001',
  format('the run of task %s is no longer this node''s', (select t.id from pgrab.task t where t.name = 'c')));
select throws_ok('select pg_temp.finish_proven(array[null, null, null])', '40001', null, 'none is proven');
select is((select count(*) from pgrab.task t where t.status = 'running'), 3::bigint, 'then none has ended');
select is((select count(*) from pgrab.run), 0::bigint, 'and the history knows of none');

savepoint before;
select pg_temp.finish(1000, 4);
select results_eq(
  $$select r.name, r.outcome, r.output, r.output_truncated, r.node,
      extract(epoch from r.finished_at - r.started_at)::integer,
      extract(epoch from statement_timestamp() - r.finished_at)::integer
    from pgrab.run r order by r.name$$,
  $$values ('a', 'succeeded', 'x', false, 'n1', 1, 2), ('b', 'succeeded', null, false, 'n1', 1, 1),
      ('c', 'succeeded', 'z', true, 'n1', 1, 0)$$, 'each has its own times and output');
select results_eq('select t.name, t.status from pgrab.task t', $$values ('b', 'scheduled')$$,
  'what has a next fire stays');
rollback to before;
select pg_temp.finish_proven(pg_temp.proofs());
select results_eq('select r.name, r.outcome, r.output, r.node from pgrab.run r order by r.name',
  $$values ('a', 'succeeded', 'x', 'n1'), ('b', 'succeeded', null, 'n1'), ('c', 'succeeded', 'z', 'n1')$$,
  'with their proofs, the same');

select * from finish();
rollback;
