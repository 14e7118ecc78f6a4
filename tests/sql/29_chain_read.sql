-- What is read of chains: outputs that are handed down, pictures.
begin;
\ir chain.inc
select plan(10);
set local timezone = 'UTC';

-- what comes down
insert into pgrab.task (id, name, kind) overriding system value values (1, 'a', 'noop'), (2, 'b', 'noop');
insert into pgrab.task (id, kind, command, args, parent_id) overriding system value values
  (3, 'http', 'http://h/', '{"body": {"all": "{{parent_json}}", "text": "<{{parent_output}}>"}}', 1);
select pg_temp.ends(1, 'succeeded', E'say "hi"\n');
select is((select pgrab_internal.parent_output(t.id, t.chain) from pgrab.task t where id = 3), E'say "hi"\n',
  'the output of a parent is offered as text');
select ok((select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args) like '%"text": "<say \\"hi\\"\\n>"%'
      and pgrab_internal.args_for(t.id, t.chain, t.kind, t.args) like '%"all": "say \\"hi\\"\\n"%'
    from pgrab.task t where id = 3),
  'and put into the texts of args, as JSON wants it');
insert into pgrab.edge values (2, 3);
select pg_temp.ends(2, 'succeeded', '{"n": 1}');
select is((select pgrab_internal.parent_output(t.id, t.chain)::jsonb from pgrab.task t where id = 3),
  '{"a": "say \"hi\"\n", "b": {"n": 1}}', 'of several parents an object by name');
select alike((select pgrab_internal.args_for(t.id, t.chain, t.kind, t.args) from pgrab.task t where id = 3),
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

select * from finish();
rollback;
