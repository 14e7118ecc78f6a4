-- What is asked of a row before somebody may do something with it, where roles are separate.
begin;
select plan(26);
set local client_min_messages = warning;
\ir ../../src/db/sql/roles.sql
;
create role pgrab_test_alice;
create role pgrab_test_bob;
grant usage on schema pgrab to pgrab_test_alice;
grant insert (kind, priority), update (priority), select on pgrab.task to pgrab_test_alice;
grant pgrab_submit to pgrab_test_alice, pgrab_test_bob;
grant pgrab_test_alice to current_user;
create function pg_temp.bounds(p_priority integer, p_misfire_limit integer, p_by text) returns void
language sql as $$
  select pgrab_internal.owner_bounds(jsonb_populate_record(null::pgrab_internal.task,
    jsonb_build_object('priority', p_priority, 'misfire_limit', p_misfire_limit)), p_by)
$$;

-- ------------------------------------------------------------------------------- one role does everything
select ok(pgrab_internal.may_operate('pgrab_test_alice'), 'everybody is an operator');
select ok(pgrab_internal.may_kind('pgrab_test_alice', 'shell'), 'and may have tasks of every kind');
select lives_ok($$select pg_temp.bounds(100, 100000, 'pgrab_test_alice')$$, 'without bounds');

-- ---------------------------------------------------------------------------------------- roles are separate
update pgrab.cluster set roles = true;
select ok(not pgrab_internal.may_operate('pgrab_test_alice'), 'who submits does not operate');
select ok(not pgrab_internal.may_operate('pgrab_test_nobody'), 'nor does a role that is no more');
select ok(pgrab_internal.may_operate(pgrab_internal.pgrab_owner()), 'who owns pgrab does');
grant pgrab_operator to pgrab_test_bob;
select ok(pgrab_internal.may_operate('pgrab_test_bob'), 'and who was made an operator');

select ok(pgrab_internal.may_kind('pgrab_test_alice', 'sql'), 'sql is everybody''s who submits');
select ok(not pgrab_internal.may_kind('pgrab_test_alice', 'shell'), 'shell is not');
select throws_ok($$select pgrab_internal.kind_refuse('pgrab_test_alice', 'shell')$$, '42501',
  'pgrab_test_alice may not have tasks of kind shell');
grant pgrab_kind_shell to pgrab_test_alice;
select ok(pgrab_internal.may_kind('pgrab_test_alice', 'shell'), 'until it is granted');
select lives_ok($$select pgrab_internal.kind_refuse('pgrab_test_alice', 'shell')$$, 'then it is not refused');
insert into pgrab.task (id, kind, command) overriding system value values
  (1, 'shell', 'true'), (2, 'shell', 'true'), (3, 'sql', 'select 1'), (4, 'noop', '');
alter table pgrab.task alter id restart with 101;
update pgrab.task set owner = case when id = 2 then 'pgrab_test_bob' else 'pgrab_test_alice' end;
select results_eq('select * from pgrab_internal.kinds_granted(array[1, 2, 3]) order by 1, 2',
  $$values ('pgrab_test_alice', 'shell'), ('pgrab_test_alice', 'sql')$$,
  'of many tasks each pair is asked for once');

select lives_ok($$select pg_temp.bounds(9, 1000, 'pgrab_test_alice')$$, 'as far as the bounds');
select throws_ok($$select pg_temp.bounds(10, 1000, 'pgrab_test_alice')$$, '22023',
  'task priority cannot be ''10''');
select throws_ok($$select pg_temp.bounds(9, 1001, 'pgrab_test_alice')$$, '22023',
  'task misfire_limit cannot be ''1001''');
select lives_ok($$select pg_temp.bounds(10, 1001, 'pgrab_test_bob')$$, 'an operator goes beyond');
update pgrab.cluster set submit_priority = 0;
set local role pgrab_test_alice;
select throws_ok($$insert into pgrab.task (kind, priority) values ('noop', 1)$$, '22023',
  null, 'whatever they are, a plain row does not slip through');
select throws_ok($$insert into pgrab.task (kind) values ('nop')$$, '22023',
  'task kind cannot be ''nop''', 'a kind that does not exist is not said to be forbidden');
select throws_ok('update pgrab.task set priority = 1 where id = 1', '22023',
  null, 'nor an edit of the priority alone');
reset role;
select throws_ok('update pgrab.cluster set submit_priority = -1', '23514', null,
  'they never refuse a row that says nothing of it');
update pgrab.cluster set submit_priority = 10;
select lives_ok($$select pg_temp.bounds(10, 1000, 'pgrab_test_alice')$$, 'or moves them');

-- ------------------------------------------------------------------------------------------------- secrets
insert into pgrab.secret (owner, name, value) values
  ('pgrab_test_alice', 'a', 'hers'), ('pgrab_test_bob', 'a', 'his'), ('pgrab_test_bob', 'b', 'his');
update pgrab.task set status = 'running', version = 7, node_id = 1, incarnation = 11 where id < 3;
create function pg_temp.secrets(p_id bigint, p_version bigint, p_name text) returns text language sql as $$
  select s.value from pgrab_internal.secrets(array[p_id], array[p_version], array[p_name]) s
$$;
select is((select array_agg(s.task_id || s.name || s.value order by s.task_id)
    from pgrab_internal.secrets(array[1, 2, 1], array[7, 7, 7], array['a', 'a', 'b']) s),
  '{1ahers,2ahis}', 'each task is given what belongs to its owner');
select is(pg_temp.secrets(1, 8, 'a'), null, 'not under another version');
select is(pg_temp.secrets(3, (select version from pgrab.task where id = 3), 'a'), null,
  'nor before it is started');
select is(pg_temp.secrets(4711, 7, 'a'), null, 'nor what is no task');

select * from finish();
rollback;
