-- What each of the separate roles may see, write and call.
begin;
select plan(24);
set local client_min_messages = warning;
\ir ../../src/db/sql/roles.sql
;
grant pgrab_submit, pgrab_operator, pgrab_read to current_user;
update pgrab.cluster set roles = true;
select pgrab_internal.rights_tables(), pgrab_internal.rights_people(), pgrab_internal.rights_routines(),
  pgrab_internal.rights_node();

create function pg_temp.columns(p_role text, p_right text, p_table regclass default 'pgrab.task')
returns text[] language sql as $$
  select coalesce(array_agg(a.attname::text order by a.attname), '{}') from pg_attribute a
  where a.attrelid = p_table and a.attnum > 0 and not a.attisdropped
    and has_column_privilege(p_role, p_table, a.attname, p_right)
$$;
-- The tables of which a role may write anything.
create function pg_temp.written(p_role text) returns text[] language sql as $$
  select coalesce(array_agg(c.relname::text order by c.relname), '{}') from pg_class c
  where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
    and (has_any_column_privilege(p_role, c.oid, 'insert, update')
      or has_table_privilege(p_role, c.oid, 'delete, truncate'))
$$;

-- ---------------------------------------------------------------------------------------- what is granted
select is(pg_temp.columns('pgrab_submit', 'update'),
  array(select c from unnest(pgrab_internal.written()) c order by 1),
  'who submits writes what people write of a task');
select is(pg_temp.columns('pgrab_operator', 'insert'), '{}', 'an operator inserts none');
select is(pg_temp.columns('pgrab_node', 'insert'), '{}', 'nor does a node');
select is(array(select unnest(pg_temp.columns('pgrab_node', 'update'))
    intersect select unnest(pgrab_internal.written())),
  '{}', 'and it changes nothing that people write');
select is(pg_temp.written('pgrab_read'), '{}', 'a reader writes nothing');
select is(pg_temp.written('pgrab_serve'), '{token}', 'nor does the server, but when a token was used');
select is(pg_temp.columns('pgrab_serve', 'update', 'pgrab.token'), '{last_used_at}', 'and no more of it');
select is(
  (select string_agg(r.rolname, ' ' order by r.rolname) from pg_roles r
    where r.rolname in ('pgrab_node', 'pgrab_submit', 'pgrab_operator', 'pgrab_read', 'pgrab_serve')
      and has_schema_privilege(r.oid, 'pgrab_internal', 'usage')),
  'pgrab_node', 'nobody but nodes gets to what is internal');
select is(
  (select string_agg(r.rolname, ' ') from pg_roles r
    where r.rolname in ('pgrab_node', 'pgrab_submit', 'pgrab_operator', 'pgrab_read', 'pgrab_serve')
      and has_column_privilege(r.oid, 'pgrab.secret', 'value', 'select')),
  null, 'nobody reads a secret');
select is(
  (select string_agg(r.rolname, ' ') from pg_roles r
    where r.rolname in ('pgrab_node', 'pgrab_submit', 'pgrab_operator', 'pgrab_read')
      and has_column_privilege(r.oid, 'pgrab.token', 'hash', 'select')),
  null, 'nor a token');
select is(
  (select string_agg(p.proname, ' ') from pg_proc p
    where p.pronamespace = 'pgrab'::regnamespace and has_function_privilege('pgrab_read', p.oid, 'execute')
      and p.proname in ('pause', 'cancel', 'delete', 'apply', 'add', 'edit', 'drain', 'pause_all', 'upkeep')),
  null, 'a reader calls nothing that changes anything');
select is(
  (select string_agg(distinct p.proname, ' ' order by p.proname) from pg_proc p
    where p.pronamespace = 'pgrab'::regnamespace
      and has_function_privilege('pgrab_operator', p.oid, 'execute')
      and not has_function_privilege('pgrab_submit', p.oid, 'execute')),
  'adopt drain pause_all resume_all undrain upkeep', 'what only an operator calls');

-- ---------------------------------------------------------------------------------------------- whose rows
insert into pgrab.task (id, kind, run_at) overriding system value values (1, 'noop', '2099-01-01');
select setval(pg_get_serial_sequence('pgrab.task', 'id'), 100);
insert into pgrab.secret (name, value) values ('mine', 'x');
set local role pgrab_submit;
select is((select count(*) from pgrab.task), 0::bigint, 'who submits does not see the tasks of others');
insert into pgrab.task (key, kind, run_at) values ('hers', 'noop', '2099-01-01');
insert into pgrab.secret (name, value) values ('hers', 'y');
select is((select string_agg(t.key || ' ' || t.owner, ',') from pgrab.task t), 'hers pgrab_submit',
  'but his own');
select is((select string_agg(s.name, ',') from pgrab.secret s), 'hers', 'and the names of his secrets');
select is((select count(*) from pgrab.event), (select count(*) from pgrab.event where role = current_user),
  'and what he did');
update pgrab.task set priority = 1;
delete from pgrab.task where id = 1;
select throws_ok('select pgrab.pause(1)', 'P0002', 'task 1 does not exist');
select throws_ok($$update pgrab.task set status = 'done'$$, '42501', null,
  'he writes nothing of the system''s');
select throws_ok($$insert into pgrab.task (kind, command) values ('shell', 'true')$$, '42501', null,
  'nor a kind that he was not granted');
set local role pgrab_operator;
select is((select string_agg(t.priority::text, ',' order by t.id) from pgrab.task t), '0,1',
  'an operator sees all, and that nothing of others was changed');
select is((select count(*) from pgrab.pause(1)), 1::bigint, 'he may pause it');
select throws_ok($$update pgrab.task set command = 'x' where id = 1$$, '42501', null,
  'but not change what it runs');
set local role pgrab_read;
select is((select count(*) from pgrab.tasks), 2::bigint, 'a reader sees all');
select throws_ok('delete from pgrab.task', '42501', null, 'and changes nothing');
reset role;

select * from finish();
rollback;
