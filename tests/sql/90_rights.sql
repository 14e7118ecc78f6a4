-- Names and rights: whose names a function finds, and what nobody may.
begin;
select plan(16);

-- ------------------------------------------------------------------------------------------------- names
select is(
  array(
    select p.oid::regprocedure::text from pg_proc p
    where p.pronamespace = any (array['pgrab', 'pgrab_internal', 'pgrab_tool']::regnamespace[])
      and p.prosqlbody is null
      and not coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false)
    order by 1),
  '{}'::text[], 'a function is parsed when it is made, or its path is pinned');
select is(
  array(
    select distinct p.proname::text from pg_proc p
    where p.pronamespace = 'pgrab_internal'::regnamespace and p.prosqlbody is null and not p.prosecdef
    order by 1),
  array['end_sql_backends', 'may_lose'], 'what is internal runs as the owner, but what must not');
select is(
  (select count(*) from pg_proc p
  where p.pronamespace = any (array['pgrab', 'pgrab_internal', 'pgrab_tool']::regnamespace[])
    and p.prosecdef and not coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false)),
  0::bigint, 'nothing with the rights of the owner goes by a path of others');
select is(
  (select count(*) from pg_class c
  where c.relnamespace = 'pgrab'::regnamespace and c.relkind = 'v'
    and not coalesce(c.reloptions @> array['security_invoker=true'], false)),
  0::bigint, 'views have the rights of who reads them');

-- ------------------------------------------------------------------------------------------------- rights
select is(
  array(
    select distinct p.proname::text from pg_proc p
      cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where p.pronamespace = any (array['pgrab', 'pgrab_internal', 'pgrab_tool']::regnamespace[])
      and a.grantee = 0
    order by 1),
  array['by_person', 'call_verb', 'in_call'], 'everybody may call nothing but what triggers ask');
select is(
  (select count(*) from pg_class c cross join aclexplode(c.relacl) a
  where c.relnamespace in ('pgrab'::regnamespace, 'pgrab_internal'::regnamespace) and a.grantee = 0),
  0::bigint, 'nor read or write any table');
select is(
  (select count(*) from pg_namespace n cross join aclexplode(n.nspacl) a
  where n.nspname in ('pgrab', 'pgrab_internal', 'pgrab_tool') and a.grantee = 0), 0::bigint,
  'nor get into the schemas');

-- --------------------------------------------------------------------------------- rows that would poison
insert into pgrab.task (id, kind, run_at) overriding system value values (1, 'noop', '2099-01-01');
alter table pgrab.task alter id restart with 101;
select throws_ok('update pgrab.task set version = 9223372036854775807 where id = 1', '23514');
select throws_ok($$update pgrab.task set version = version + 1, due_at = '-infinity' where id = 1$$, '23514');
select throws_ok($$update pgrab.task set version = version + 1, fire_at = 'infinity' where id = 1$$, '23514');
select throws_ok($$update pgrab.task set version = version + 1, started_at = 'infinity' where id = 1$$,
  '23514');
select throws_ok($$update pgrab.task set version = version + 1, misfire_limit = 2147483647 where id = 1$$,
  '23514');
select throws_ok($$insert into pgrab.task (kind, command, args) values ('http', 'http://x',
  jsonb_build_object('headers', (select jsonb_object_agg('h' || i, 'x') from generate_series(1, 1001) i)))$$,
  '22023');
select throws_ok($$insert into pgrab.task (kind, require)
  values ('noop', jsonb_build_object('a', repeat('x', 3000)))$$, '22023');
select throws_ok($$update pgrab.task set require = jsonb_build_object('a', repeat('x', 3000)) where id = 1$$,
  '22023');
insert into pgrab.task (id, kind, owner, run_at) overriding system value
values (2, 'noop', 'somebody', '2099-01-01');
select is((select owner from pgrab.task where id = 2), current_user::text,
  'the owner is who inserts, whatever the row says');

select * from finish();
rollback;
