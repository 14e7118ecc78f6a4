-- What is read of chains: outputs that are handed down, pictures.
begin;
\ir chain.inc
select plan(23);
set local timezone = 'UTC';

-- what comes down
insert into pgrab.task (id, name, kind) overriding system value values (1, 'a', 'noop'), (2, 'b', 'noop');
insert into pgrab.task (id, kind, command, args, parent_id) overriding system value values
  (3, 'http', 'http://h/', '{"body": {"all": "{{parent_json}}", "text": "<{{parent_output}}>"}}', 1);
select pg_temp.ends(1, 'succeeded', E'say "hi"\n');
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 3), E'say "hi"\n',
  'the output of a parent is offered as text');
select ok((select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args, null)
      like '%"text": "<say \\"hi\\"\\n>"%'
      and pgrab_internal.args_for(t.id, t.chain, t.kind, t.args, null) like '%"all": "say \\"hi\\"\\n"%'
    from pgrab.task t where id = 3),
  'and put into the texts of args, as JSON wants it');
insert into pgrab.edge values (2, 3);
select pg_temp.ends(2, 'succeeded', '{"n": 1}');
select is((select pgrab_internal.parent_output(t.id, t.chain)::jsonb from pgrab.task t where id = 3),
  '{"a": "say \"hi\"\n", "b": {"n": 1}}', 'of several parents an object by name');
select alike((
    select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args, null) from pgrab.task t where id = 3),
  '%{"all": {"a": "say \\"hi\\"\\n", "b": {"n": 1}}%', 'parent_json is JSON, not a text');
select pg_temp.fresh();

-- outputs that are long
insert into pgrab.task (id, kind) overriding system value values (1, 'noop'), (2, 'noop');
insert into pgrab.task (id, kind, command, parent_id) overriding system value values (3, 'shell', 'true', 1);
insert into pgrab.edge values (2, 3);
select pg_temp.ends(1, 'succeeded', repeat(E'\n', 40000));
select pg_temp.ends(2, 'succeeded', repeat('€', 20000));
select cmp_ok((select octet_length(pgrab_internal.parent_output(t.id, t.chain)) from pgrab.task t
    where id = 3), '<=', 65536, 'together they fit into an environment');
select pg_temp.fresh();

-- parents of one name
insert into pgrab.task (id, name, kind) overriding system value values
  (1, 'part', 'noop'), (2, 'part', 'noop'), (3, 'other', 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 1);
insert into pgrab.edge values (2, 4), (3, 4);
select pg_temp.ends(1, 'succeeded', '1'); select pg_temp.ends(2, 'succeeded', '2');
select pg_temp.ends(3, 'succeeded', '3');
select is((select pgrab_internal.parent_output(t.id, t.chain)::jsonb from pgrab.task t where id = 4),
  '{"part#1": 1, "part#2": 2, "other": 3}', 'do not hide each other');
select pg_temp.fresh();

-- pictures
insert into pgrab.task (id, name, kind) overriding system value values (1, 'extract', 'noop');
insert into pgrab.task (id, name, kind, parent_id) overriding system value values
  (2, 'clean', 'noop', 1), (3, 'load', 'noop', 1);
insert into pgrab.edge values (2, 3);
select is((select string_agg(task, '/' order by path) from pgrab.chains where root = 1),
  'extract/  clean/    load', 'a link stands below its deepest parent');
select is(pgrab.why(3), 'waiting for extract, clean', 'why names the parents');
select is((select string_agg(gate || ' ' || verdict, ', ') from pgrab.explain(3) where gate like 'parent %'),
  'parent extract waits, parent clean waits', 'and so does explain');
select pg_temp.ends(1); select pg_temp.ends(2); select pg_temp.ends(3);
select is((select string_agg(task || ' ' || outcome, '/' order by path) from pgrab.chains where root = 1),
  'extract succeeded/  clean succeeded/    load succeeded', 'an ended chain can be drawn too');
select pg_temp.fresh();

-- what decided when it ended
insert into pgrab.task (id, name, kind, schedule) overriding system value
values (1, 'extract', 'noop', '@yearly');
insert into pgrab.task (id, name, kind, parent_id) overriding system value values
  (2, 'quick', 'noop', 1), (3, 'slow', 'noop', 1), (4, 'join', 'noop', 2);
insert into pgrab.edge values (3, 4);
select pgrab.run_now(1) \g /dev/null
select pg_temp.ends(i) from generate_series(1, 4) i \g /dev/null
update pgrab.run r set started_at = now() + s * interval '1 s', finished_at = now() + f * interval '1 s'
from (values (1, 0, 1), (2, 1, 2), (3, 2, 5), (4, 7, 8)) x(id, s, f) where r.task_id = x.id;
create temp table past as select chain_id from pgrab.run where task_id = 1;
select results_eq('select l.id, l.depth, l.waited, l.seconds, l.critical
  from past, pgrab.chain_graph(chain_id) l',
  $$values (1::bigint, 0, null::float8, 1::float8, true), (2, 1, 0, 1, false), (3, 1, 1, 3, true),
    (4, 2, 2, 1, true)$$, 'the times of a run, and its critical path');
select is((select parents from past, pgrab.chain_graph(chain_id) where id = 4), '{2,3}'::bigint[],
  'with its parents');
update pgrab.task set parent_id = 1 where id = 4;
select is((select parents from past, pgrab.chain_graph(chain_id) where id = 4), '{2,3}'::bigint[],
  'as they were in that run, whatever became of them');
select is((select count(*) from pgrab.chain_graph(-1)), 0::bigint, 'no such run');
select is(pgrab_internal.chain_critical('{1,2,3}', array['2026-01-01', 'infinity', null]::timestamptz[],
  '{2,3}', '{1,2}'), '{2,1}', 'what is running decides');
select is(pgrab_internal.chain_critical('{1}', '{null}', null, null), '{}',
  'of what has not begun nothing does');
select is(pgrab_internal.chain_critical('{1,2}', '{2026-01-01,2026-01-02}', '{1,2}', '{2,1}'), '{2,1}',
  'it comes to an end in a circle, too');
select pg_temp.fresh();

-- what a year of history costs: a link that starts, a cancel and a delete read no older day
select pgrab_internal.day_make('run', '2026-01-01'::date + d) from generate_series(0, 3) d \g /dev/null
insert into pgrab.task (id, name, kind, schedule) overriding system value
values (1, 'a', 'noop', '@every 1s');
insert into pgrab.task (id, kind, command, parent_id) overriding system value
values (2, 'shell', 'true', 1);
insert into pgrab.run (task_id, attempt, version, chain_id, fire_at, finished_at, created_at, outcome, kind,
  owner, output)
select 1, 1, 1, 0, f, f, f, 'succeeded', 'noop', current_user, 'old'
from (select '2026-01-02Z'::timestamptz as f union all select now() from generate_series(1, 2000)) f;
select pg_temp.ends(1, 'succeeded', 'new') \g /dev/null
create function pg_temp.read_of(p_table text) returns bigint language sql as $$
  select coalesce(sum(s.idx_scan) + sum(s.seq_scan) + sum(s.idx_tup_fetch), 0)::bigint
  from pg_stat_xact_all_tables s where s.schemaname = 'pgrab' and s.relname = p_table
$$;
create function pg_temp.reads(p_what text, p_table text) returns bigint language plpgsql as $$
declare
  v_before constant bigint := pg_temp.read_of(p_table);
begin
  execute p_what;
  return pg_temp.read_of(p_table) - v_before;
end $$;
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 2), 'new',
  'a link gets the output of this run');
select is(pg_temp.reads('select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args, null) from pgrab.task t
    where id = 2', 'run_20260102'), 0::bigint, 'and no day before it is looked at');
select cmp_ok(pg_temp.reads('select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args, null)
    from pgrab.task t
    where id = 2', 'run_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')), '<', 10::bigint,
  'nor the other runs of its parent');
insert into pgrab.task (id, kind, run_at) overriding system value values
  (6, 'noop', '2100-01-01'), (7, 'noop', '2100-01-01');
select pgrab.cancel(6) \g /dev/null
select is(pg_temp.reads('select pgrab.cancel(7)', 'run_20260102'), 0::bigint, 'a cancel reads no history');
insert into pgrab.task (id, kind, schedule) overriding system value values (8, 'noop', '@daily');
select is(pg_temp.reads('delete from pgrab.task where id = 8', 'run_20260102'), 0::bigint, 'nor a delete');
insert into pgrab.task (id, kind, schedule) overriding system value values (9, 'noop', '@daily');
select is(pg_temp.reads('select pgrab.delete(9)', 'run_20260102'), 0::bigint, 'by a function or without');

select * from finish();
rollback;
