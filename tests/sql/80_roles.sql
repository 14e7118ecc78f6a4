-- pgrab_internal.rights, and each line of it tried as each role: what it permits works, and what it does not
-- permit is refused, or finds no row.
begin;
select plan(46);
set local client_min_messages = warning;
\ir ../../src/db/sql/roles.sql
;
update pgrab.cluster set roles = true;
select pgrab_internal.rights_rows(), pgrab_internal.rights_tables(), pgrab_internal.rights_when(),
  pgrab_internal.rights_routines(), pgrab_internal.rights_node();

-- ------------------------------------------------------------------------------------------ who is who here
create table pg_temp.person (name text, roles text[]);
insert into pg_temp.person values
  ('pgrab_t_nobody', '{}'), ('pgrab_t_submit', '{pgrab_submit}'), ('pgrab_t_operator', '{pgrab_operator}'),
  ('pgrab_t_read', '{pgrab_read}'), ('pgrab_t_node', '{pgrab_node}'),
  ('pgrab_t_serve', '{pgrab_serve,pgrab_read}'), ('pgrab_t_submit_read', '{pgrab_submit,pgrab_read}'),
  ('pgrab_t_submit_operator', '{pgrab_submit,pgrab_operator}'),
  ('pgrab_t_submit_node', '{pgrab_submit,pgrab_node}'), ('pgrab_t_read_node', '{pgrab_read,pgrab_node}'),
  ('pgrab_t_operator_read', '{pgrab_operator,pgrab_read}'), ('pgrab_t_other', '{pgrab_submit}');
do $$
declare
  p record;
begin
  for p in select * from pg_temp.person loop
    execute format('create role %I', p.name);
    execute format('grant %I to current_user', p.name);
    execute format('grant pgrab_kind_sql, pgrab_kind_noop to %I', p.name); -- of an alert the kind is checked
    execute coalesce((
      select string_agg(format('grant %I to %I;', r, p.name), '') from unnest(p.roles) r), 'select 1');
  end loop;
end $$;

-- ------------------------------------------------------------------------------------ rows that are theirs
create table pg_temp.has (owner text, t bigint, s bigint, parent bigint, child bigint, spare bigint);
do $$
declare
  v_owner text;
  v_ids bigint[];
begin
  for v_owner in select name from pg_temp.person loop
    with made as (
      insert into pgrab.task (kind, command, key, run_at, schedule)
      select 'sql', 'select 1', v_owner || ':' || n, '2099-01-01', case n when 2 then '@daily' end
      from generate_series(1, 5) n returning id)
    select array_agg(id order by id) into v_ids from made;
    insert into pgrab.edge (parent_id, child_id) values (v_ids[3], v_ids[4]);
    insert into pg_temp.has
    values (v_owner, v_ids[1], v_ids[2], v_ids[3], v_ids[4], v_ids[5]);
    update pgrab.task set owner = v_owner where id = any (v_ids);
    insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner)
    values (v_ids[1], 1, now(), now(), 1, 'failed', 'sql', v_owner);
    insert into pgrab.definition values (v_ids[1], 1, now(), null, 'x', v_owner, '{}');
    insert into pgrab.event (what, role, task_id, owner) values ('edit', 'x', v_ids[1], v_owner);
    insert into pgrab.incident (task_id, event, since) values (v_ids[1], 'failed', now());
    insert into pgrab.wait (task_id, name, since) values (v_ids[1], 'go', now());
    insert into pgrab.signal (task_id, name, role) values (v_ids[1], 'go', 'x');
    insert into pgrab.batch (task_id) values (v_ids[1]);
    insert into pgrab.batch_count (batch) values (v_ids[1]);
    insert into pgrab.cancel_request (task_id, version, incarnation) values (v_ids[1], 1, 1);
    insert into pgrab.live (incarnation, task_id, version) values (1, v_ids[1], 1);
    insert into pgrab.step (task_id, fire_at, name, version) values (v_ids[1], now(), 's', 1);
    insert into pgrab.limit (key, max_running) values (v_owner, 1);
    update pgrab.limit set owner = v_owner where key = v_owner;
    insert into pgrab.limit_place (task_id, at, started, key) values (v_ids[1], now(), true, v_owner);
    insert into pgrab.limit_start (no, at, key) values (1, now(), v_owner);
    insert into pgrab.secret (owner, name, value) values (v_owner, 's', 'x');
    insert into pgrab.token (hash, role, name, expires_at)
    values (sha256(v_owner::bytea), v_owner, v_owner, now());
  end loop;
end $$;
insert into pgrab.calendar (name, owner) select owner, owner from pg_temp.has;
insert into pgrab.calendar_day (calendar, day) select owner, '2099-12-25' from pg_temp.has;
insert into pgrab.blackout (name, during, set_by)
select owner, '[2099-12-25,2099-12-26)', owner from pg_temp.has;
alter table pgrab.alert disable trigger user;
insert into pgrab.alert (name, template, set_by) select owner, '{"kind": "noop"}', owner from pg_temp.has;
alter table pgrab.alert enable trigger user;
insert into pgrab.quota (owner, max_bytes) select owner, 2000000 from pg_temp.has;
insert into pgrab.limit_use (no, key) select 0, owner from pg_temp.has on conflict do nothing;
insert into pgrab.registration (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at) values ('n1', 'h', 1, '1', 'id_hash', 8, '1 s', '20 s', now());
insert into pgrab.beat (node_id, beat, incarnation, heartbeat_at, state)
select id, 1, 11, now(), 'up' from pgrab.registration;

-- ---------------------------------------------------------------------------------- how to try each of them
-- {o}: whose rows; {t} and so on: his tasks.  Returns a number; none is permitted if it is 0.
create table pg_temp.way (object text, action text, first_column text, text text);
insert into pg_temp.way
select x, 'select', null, format('select count(*) from pgrab.%I where %s', x, w) from (values
  ('task', 'id = {t}'), ('run', 'task_id = {t}'), ('edge', 'child_id = {child}'),
  ('definition', 'task_id = {t}'), ('limit', 'key = ''{o}'''),
  ('quota', 'owner = ''{o}'''),
  ('chain', 'chain = (select t.chain from pgrab.task t where t.id = {child})'),
  ('limit_place', 'key = ''{o}'''), ('limit_use', 'key = ''{o}'''), ('limit_start', 'key = ''{o}'''),
  ('calendar', 'name = ''{o}'''), ('blackout', 'name = ''{o}'''), ('calendar_day', 'calendar = ''{o}'''),
  ('alert', 'name = ''{o}'''), ('incident', 'task_id = {t}'), ('wait', 'task_id = {t}'),
  ('batch', 'task_id = {t}'), ('batch_count', 'batch = {t}'),
  ('signal', 'task_id = {t}'), ('cancel_request', 'task_id = {t}'),
  ('live', 'task_id = {t}'), ('step', 'task_id = {t}'),
  ('event', 'task_id = {t} and what = ''edit''')) v(x, w);
insert into pg_temp.way values
  ('secret', 'select', 'owner',
    'select count(*) from (select owner, name from pgrab.secret where owner = ''{o}'') s'),
  ('token', 'select', 'role',
    'select count(*) from (select name, role from pgrab.token where role = ''{o}'') t'),
  ('token', 'select', 'hash', 'select count(*) from pgrab.token where hash = sha256(''{o}''::bytea)'),
  ('task', 'insert', 'slots',
    'insert into pgrab.task (kind, run_at) select ''noop'', ''2099-01-01'' where ''{o}'' = current_user '
    'returning 1'),
  ('task', 'update', 'kind', 'update pgrab.task set command = ''select 2'' where id = {t} returning 1'),
  ('task', 'update', 'slots', 'update pgrab.task set priority = 1 where id = {t} returning 1'),
  ('task', 'update', 'version', 'update pgrab.task set version = version + 1 where id = {t} returning 1'),
  ('task', 'delete', null, 'delete from pgrab.task where id = {t} returning 1'),
  ('tasks', 'delete', null, 'delete from pgrab.tasks where id = {t} returning 1'),
  ('edge', 'insert', 'parent_id',
    'insert into pgrab.edge (parent_id, child_id) values ({parent}, {spare}) returning 1'),
  ('edge', 'update', 'parent_id',
    'update pgrab.edge set run_if = ''always'' where child_id = {child} returning 1'),
  ('edge', 'delete', null, 'delete from pgrab.edge where child_id = {child} returning 1'),
  ('limit', 'insert', 'key',
    'insert into pgrab.limit (key, max_running) select ''new'', 1 where ''{o}'' = current_user '
    'returning 1'),
  ('limit', 'update', 'key', 'update pgrab.limit set max_running = 2 where key = ''{o}'' returning 1'),
  ('limit', 'delete', null, 'delete from pgrab.limit where key = ''{o}'' returning 1'),
  ('quota', 'insert', 'owner',
    'insert into pgrab.quota (share_key, max_bytes) values (''{o}'', 1) returning 1'),
  ('quota', 'update', 'owner',
    'update pgrab.quota set max_bytes = 2000001 where owner = ''{o}'' returning 1'),
  ('quota', 'delete', null, 'delete from pgrab.quota where owner = ''{o}'' returning 1'),
  ('calendar', 'insert', 'name',
    'insert into pgrab.calendar (name) select ''new'' where ''{o}'' = current_user returning 1'),
  ('calendar', 'update', 'name',
    'update pgrab.calendar set closed_weekdays = ''{}'' where name = ''{o}'' returning 1'),
  ('calendar', 'delete', null, 'delete from pgrab.calendar where name = ''{o}'' returning 1'),
  ('calendar_day', 'insert', 'calendar',
    'insert into pgrab.calendar_day (calendar, day) values (''{o}'', ''2099-12-26'') returning 1'),
  ('calendar_day', 'update', 'calendar',
    'update pgrab.calendar_day set open = true where calendar = ''{o}'' returning 1'),
  ('calendar_day', 'delete', null, 'delete from pgrab.calendar_day where calendar = ''{o}'' returning 1'),
  ('delete_calendar', 'call', null, 'select pgrab.delete_calendar(''{o}'')::int'),
  ('delete_calendar_day', 'call', null, 'select pgrab.delete_calendar_day(''{o}'', ''2099-12-25'')::int'),
  ('blackout', 'insert', 'name',
    'insert into pgrab.blackout (name, during) select ''new'', ''[2099-12-25,2099-12-26)'' where ''{o}'' '
    '= current_user returning 1'),
  ('blackout', 'update', 'name',
    'update pgrab.blackout set action = ''skip'' where name = ''{o}'' returning 1'),
  ('blackout', 'delete', null, 'delete from pgrab.blackout where name = ''{o}'' returning 1'),
  ('delete_blackout', 'call', null, 'select pgrab.delete_blackout(''{o}'')::int'),
  ('alert', 'insert', 'name',
    'insert into pgrab.alert (name, template) select ''new'', ''{"kind": "sql", "command": "x"}'' where '
    '''{o}'' = current_user returning 1'),
  ('alert', 'update', 'name', 'update pgrab.alert set enabled = false where name = ''{o}'' returning 1'),
  ('alert', 'delete', null, 'delete from pgrab.alert where name = ''{o}'' returning 1'),
  ('secret', 'insert', 'name',
    'insert into pgrab.secret (name, value) select ''new'', ''x'' where ''{o}'' = current_user '
    'returning 1'),
  ('secret', 'update', 'name', 'update pgrab.secret set value = ''y'' where owner = ''{o}'' returning 1'),
  ('token', 'insert', 'hash',
    'insert into pgrab.token (hash, role, expires_at) values (''\x01'', ''{o}'', now()) returning 1'),
  ('token', 'update', 'last_used_at',
    'update pgrab.token set last_used_at = now() where hash = sha256(''{o}''::bytea) returning 1'),
  ('run', 'insert', null,
    'insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner) '
    'values (1, 1, now(), now(), 1, ''failed'', ''sql'', ''{o}'') returning 1'),
  ('live', 'insert', null,
    'insert into pgrab.live (incarnation, task_id, version) values (2, {t}, 1) returning 1'),
  ('live', 'update', null, 'update pgrab.live set progress = 1 where task_id = {t} returning 1'),
  ('live', 'delete', null, 'delete from pgrab.live where task_id = {t} returning 1'),
  ('node', 'update', 'weight', 'update pgrab.node set weight = 2 where name = ''n1'' returning 1'),
  ('node', 'update', 'labels', 'update pgrab.node set labels = ''{}'' where name = ''n1'' returning 1'),
  ('node', 'update', 'draining', 'update pgrab.node set draining = true where name = ''n1'' returning 1'),
  ('apply', 'call', null,
    'select pgrab.apply(''[{"key": "{o}:1", "kind": "sql", "command": "select 1", "priority": 1}]'')'),
  ('undelete', 'call', null, 'select 1 from pgrab.undelete({t})'),
  ('signal', 'call', null, 'select 1 from pgrab.signal({t}, ''go'')'),
  ('backfill', 'call', null, 'select 1 from pgrab.backfill({t}, ''2025-01-01'', ''2025-02-01'')'),
  ('edit', 'call', null, 'select 1 from pgrab.edit({t}, ''{"priority": 1}'')'),
  ('add', 'call', null, 'select 1 from pgrab.add(''{"kind": "noop"}'') where ''{o}'' = current_user'),
  ('delete_edge', 'call', null, 'select pgrab.delete_edge({parent}, {child})::int'),
  ('delete_limit', 'call', null, 'select pgrab.delete_limit(''{o}'')::int'),
  ('delete_alert', 'call', null, 'select pgrab.delete_alert(''{o}'')::int'),
  ('delete_secret', 'call', null, 'select pgrab.delete_secret(''s'')::int where ''{o}'' = current_user'),
  ('delete_token', 'call', null, 'select pgrab.delete_token(''{o}'')::int'),
  ('token_add', 'call', null, 'select 1 from pgrab.token_add(''x'', ''{o}'')'),
  ('drain', 'call', null, 'select 1 from pgrab.drain(''n1'')'),
  ('resolve', 'call', null, 'select pgrab.resolve({t}, ''x'', ''{}'')'),
  ('undrain', 'call', null, 'select 1 from pgrab.undrain(''n1'')');
insert into pg_temp.way
select x, 'call', null, format('select 1 + count(*) from pgrab.%I({s})', x)
from unnest('{pause,resume,retry,cancel,run_now,skip_next,seal,delete,delete_chain}'::text[]) x
union all
select x, 'call', null, format('select 1 + count(*) from pgrab.%I()', x)
from unnest('{pause_all,resume_all,adopt,rotate_answer_key,upkeep}'::text[]) x;

-- All is undone, whatever it was.  An error other than "not permitted" and "no such task" comes after those.
create function pg_temp.try(p_by text, p_text text) returns boolean language plpgsql as $$
declare
  v_n bigint;
begin
  execute format('set local role %I', p_by);
  execute p_text into v_n;
  raise exception using errcode = 'UNDO1', message = coalesce(v_n, 0)::text;
exception
  when sqlstate 'UNDO1' then return sqlerrm::bigint > 0;
  when insufficient_privilege or no_data_found then return false;
  when object_not_in_prerequisite_state or invalid_authorization_specification then return true;
  when invalid_parameter_value then return sqlerrm not like '%the key is taken%';
end $$;
create function pg_temp.filled(p_text text, p_owner text) returns text language sql as $$
  select replace(replace(replace(replace(replace(replace(p_text, '{o}', h.owner), '{t}', h.t::text),
    '{s}', h.s::text), '{parent}', h.parent::text), '{child}', h.child::text), '{spare}', h.spare::text)
  from pg_temp.has h where h.owner = p_owner
$$;
-- Where a table has no row-level security, the grant says all.
create function pg_temp.granted(p_by text, p_object text, p_action text, p_column text) returns boolean
language sql as $$
  select case when p_column is null
    then has_table_privilege(p_by, 'pgrab.' || quote_ident(p_object), p_action)
    else has_column_privilege(p_by, 'pgrab.' || quote_ident(p_object), p_column, p_action) end
$$;
create function pg_temp.wrong(p_by text, p_roles text[]) returns table (what text) language sql as $$
  with thing as (
    select distinct o.object, r.action, r.columns[1] as first_column
    from pgrab_internal.rights r cross join unnest(r.objects) o(object)),
  said as (
    select t.*, w.text, (
      select min(x.whose) from pgrab_internal.role_rights x
      where x.object = t.object and x.action = t.action and x.columns[1] is not distinct from t.first_column
        and x.role = any (p_roles)) as whose
    from thing t left join pg_temp.way w on w.object = t.object and w.action = t.action
      and w.first_column is not distinct from t.first_column),
  tried as (
    select s.*, v.mine, coalesce(s.whose = 'all' or s.whose = 'own' and v.mine, false) as may,
      case when s.text is null then pg_temp.granted(p_by, s.object, s.action, s.first_column)
        else pg_temp.try(p_by, pg_temp.filled(s.text, case when v.mine then p_by else 'pgrab_t_other' end))
        end as can
    from said s cross join (values (true), (false)) v(mine))
  select format('%s %s %s %s: %s, not %s', t.action, t.object, t.first_column,
    case when t.mine then 'of his own' else 'of another' end, t.can, t.may)
  from tried t where t.can is distinct from t.may
  order by 1
$$;
select is(array(select w from pg_temp.wrong(p.name, p.roles) w), '{}'::text[],
  'what is permitted to who is ' || coalesce(nullif(array_to_string(p.roles, ' and '), ''), 'none of these'))
from pg_temp.person p where p.name <> 'pgrab_t_other' order by p.name;

-- ----------------------------------------------------------------------------------------- others' batches
set local role pgrab_t_other;
insert into pgrab.task (kind) values ('batch') returning id as theirs \gset
insert into pgrab.task (kind, batch) values ('noop', :theirs);
set local role pgrab_t_submit;
select throws_ok(format('insert into pgrab.task (kind, batch) values (''noop'', %s)', :theirs), '22023',
  format('task batch cannot be ''%s''', :theirs),
  'only its owner adds members to a batch; others are not told of it');
select throws_ok(format('select pgrab.seal(%s)', :theirs), 'P0002', null, 'or seals it');
select is((select count(*) from pgrab.batches where id = :theirs), 0::bigint, 'or sees it');
reset role;

-- ----------------------------------------------------------------------------------------- others' signals
create role pgrab_t_manager;
create role pgrab_t_signal;
grant pgrab_t_manager to pgrab_t_read;
grant pgrab_signal to pgrab_t_signal;
grant pgrab_t_signal to current_user;
update pgrab.task set wait_for = 'go'
where id in (select t from pg_temp.has union select s from pg_temp.has);
update pgrab.task t set signal_by = 'pgrab_t_manager'
from pg_temp.has h where t.id = h.t and h.owner = 'pgrab_t_other';
create function pg_temp.signals(p_by text, p_what text) returns boolean language sql as $$
  select pg_temp.try(p_by, pg_temp.filled(
    format('select 1 + count(*) from pgrab.signal({%s}, ''go'')', p_what), 'pgrab_t_other'))
$$;
select ok(pg_temp.signals('pgrab_t_read', 't'), 'the role that the owner names may send its signals');
select ok(not pg_temp.signals('pgrab_t_read', 's'), 'of no other one');
set local role pgrab_t_read;
select throws_ok((select format('select pgrab.signal(%s, ''go'')', max(id)) from pgrab.task
    where wait_for = 'go' and signal_by is null), '42501', null, 'who sees it is told so');
reset role;
select ok(pg_temp.signals('pgrab_t_signal', 's'), 'pgrab_signal may send those of all');
select ok(not pg_temp.signals('pgrab_t_submit', 't'), 'who only submits may not send those of others');
grant pgrab_t_manager to pgrab_t_submit;
select ok(pg_temp.signals('pgrab_t_submit', 't'),
  'unless the owner names it; it names the task by its number');
revoke pgrab_t_manager from pgrab_t_submit;

-- ------------------------------------------------------------------------------------------------- the views
insert into pgrab.blackout (name, during)
values ('now', tstzrange(now() - interval '1 hour', now() + interval '1 hour'));
select is(array(
    select c.relname::text from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind = 'v' and not pg_temp.try('pgrab_t_read',
      format('select 1 + count(x) from (select * from pgrab.%I limit 1) x', c.relname))
    order by 1), '{}', 'who may read gets a row of each view, with all of its columns');
delete from pgrab.blackout;

-- ------------------------------------------------------------------------------------- the door of callbacks
create role pgrab_t_callback;
grant pgrab_callback to pgrab_t_callback;
grant pgrab_t_callback to current_user;
select is(array(
    select format('%s %s', t.object, t.action) from (select distinct object, action, text from pg_temp.way) t
    where t.object not in ('add', 'secret', 'token', 'task')
      and pg_temp.try('pgrab_t_callback', pg_temp.filled(t.text, 'pgrab_t_other'))
    order by 1), '{resolve call}', 'who answers for the receivers of requests can do nothing else');

select is(array(
    select r from unnest('{pgrab_t_submit,pgrab_t_operator,pgrab_t_read,pgrab_t_callback}'::text[]) r
    where pg_temp.try(r, pg_temp.filled('select pgrab.resolve({t}, ''{"outcome": "failed"}'')::int',
      'pgrab_t_other'))), '{pgrab_t_operator}', 'without a token only who may control the task answers');
select ok(pg_temp.try('pgrab_t_submit', pg_temp.filled(
  'select pgrab.resolve({t}, ''{"outcome": "failed"}'')::int', 'pgrab_t_submit')), 'as its owner may');

-- -------------------------------------------------------------------------------- nothing else is granted
create function pg_temp.extra(p_role text) returns setof text language sql as $$
  select format('%s %s.%s', g.action, c.relname, a.attname)
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    cross join unnest('{select,insert,update}'::text[]) g(action)
  where c.relnamespace in ('pgrab'::regnamespace, 'pgrab_internal'::regnamespace) and not c.relispartition
    and c.relkind in ('r', 'p', 'v') and has_column_privilege(p_role, c.oid, a.attnum, g.action)
    and not (c.relkind = 'v' and c.relnamespace = 'pgrab'::regnamespace and g.action = 'select')
    and c.oid not in ('pgrab_internal.call'::regclass, 'pgrab_internal.run_key'::regclass)
    and not exists (
      select from pgrab_internal.role_rights r
      where pg_has_role(p_role, r.role, 'MEMBER') and r.object = c.relname and r.action = g.action
        and (r.columns is null or a.attname = any (r.columns)))
  union all
  select format('%s %s', g.action, c.relname)
  from pg_class c cross join unnest('{delete,truncate,references,trigger}'::text[]) g(action)
  where c.relnamespace in ('pgrab'::regnamespace, 'pgrab_internal'::regnamespace)
    and has_table_privilege(p_role, c.oid, g.action) and not exists (
      select from pgrab_internal.role_rights r
      where r.role = p_role and r.object = c.relname and r.action = g.action)
$$;
select is(array(select e from pg_temp.extra(r) e order by 1), '{}'::text[], r || ' has no other grants')
from unnest('{pgrab_submit,pgrab_operator,pgrab_node,pgrab_serve,pgrab_callback}'::text[]) r;
select is(
  array(
    select format('%s %s', r.action, o) from pgrab_internal.rights r cross join unnest(r.objects) o
    where case r.action when 'call' then not exists (
        select from pg_proc p where p.pronamespace = 'pgrab'::regnamespace and p.proname = o)
      else to_regclass('pgrab.' || quote_ident(o)) is null end),
  '{}'::text[], 'all that is permitted exists');
select is(
  array(
    select c.relname::text from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and has_any_column_privilege('pgrab_submit', c.oid, 'select') and not c.relrowsecurity order by 1),
  '{api,beat,cluster,drained,hold,kind,migration,node_incident,override,pool,registration}',
  'what belongs to somebody is seen by rows');
select is(
  (select string_agg(r.rolname, ' ' order by r.rolname) from pg_roles r
    where r.rolname in ('pgrab_node', 'pgrab_submit', 'pgrab_operator', 'pgrab_read', 'pgrab_serve',
        'pgrab_callback')
      and has_schema_privilege(r.oid, 'pgrab_internal', 'usage')),
  'pgrab_node', 'nobody but nodes gets to what is internal');
select is(
  (select string_agg(distinct p.proname, ' ' order by p.proname) from pg_proc p
    where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_tool'::regnamespace) and p.provolatile = 'v'
      and p.prorettype <> 'trigger'::regtype
      and has_function_privilege('pgrab_read', p.oid, 'execute') and not exists (
        select from pgrab_internal.rights r where p.proname = any (r.objects) and r.action = 'call')),
  'call members_check on_backfill on_tasks output output_of',
  'a reader calls nothing else that could change anything');
select is(array(
    select pg_temp.try('pgrab_t_read', format('select pgrab_tool.on_tasks(%L, array[1])', o))
    from pgrab_internal.rights r cross join unnest(r.objects) o where r.action = 'call' and o <> 'resolve'),
  array(select false from pgrab_internal.rights r cross join unnest(r.objects) o
    where r.action = 'call' and o <> 'resolve'),
  'and by on_tasks() nothing at all');

-- --------------------------------------------------------------- what is asked about another's is not told
-- Each function that changes nothing is asked about a number and a word of another's, and about ones that
-- nobody has: but for the words of the question the answers are the same.
create function pg_temp.answer(p_by text, p_name text, p_args text[], p_id bigint, p_word text) returns text
language plpgsql as $$
declare
  v_hint text;
  v_answer text;
begin
  execute format('set local role %I', p_by);
  execute format('select array_agg(a::text)::text from %s(%s) a', p_name, (
    select string_agg(case u.type when 'bigint' then p_id::text when 'text' then quote_literal(p_word)
      when 'bigint[]' then format('array[%s]', p_id) when 'text[]' then format('array[%L]', p_word)
      when 'interval' then '''1 h''' when 'timestamp with time zone' then '''2100-01-01'''
      when 'jsonb' then '''{}''' when 'anycompatible' then quote_literal(p_word) else '1' end
        || '::' || replace(u.type, 'anycompatible', 'text'), ', ' order by u.n)
    from unnest(p_args) with ordinality u(type, n) where u.type <> 'boolean')) into v_answer;
  raise exception using errcode = 'UNDO1';
exception
  when sqlstate 'UNDO1' then return v_answer;
  when others then
    get stacked diagnostics v_hint = pg_exception_hint;
    return sqlerrm || v_hint;
end $$;
create function pg_temp.tells(p_by text, p_of text) returns setof text language sql as $$
  with thing as (
    select x.id, h.owner || ':1' as word from pg_temp.has h
      cross join unnest(array[h.t, h.s, h.parent, h.child] || array(
        select c.chain_id from pgrab.task t join pgrab.chain c on c.chain = t.chain
        where t.id = h.child)) x(id)
    where h.owner = p_of),
  f as (
    select p.oid::regproc::text as name, p.proargtypes::regtype[]::text[] as args from pg_proc p
    where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_tool'::regnamespace)
      and p.prorettype <> 'trigger'::regtype
      and (p.provolatile = 's' or p.proname in ('output', 'output_of'))),
  asked as (
    select f.*, t.*, pg_temp.answer(p_by, f.name, f.args, t.id, t.word) as answer,
      pg_temp.answer(p_by, f.name, f.args, 987654321, 'nobodys:1') as none
    from f cross join thing t)
  select distinct format('%s(%s): %s', a.name, array_to_string(a.args, ', '), a.answer) from asked a
  where replace(replace(a.answer, a.id::text, '987654321'), a.word, 'nobodys:1')
    is distinct from replace(replace(a.none, a.id::text, '987654321'), a.word, 'nobodys:1') -- also in dates
$$;
select is(array(select t from pg_temp.tells('pgrab_t_submit', 'pgrab_t_other') t), '{}'::text[],
  'no function tells anything of the tasks and chains of another');
select cmp_ok((select count(*) from pg_temp.tells('pgrab_t_read', 'pgrab_t_other') t), '>', 9::bigint,
  'but to those who see them');

-- ------------------------------------------------------------------------- locks that stop everybody else
create function pg_temp.locks(p_by text) returns text[] language plpgsql as $$
declare
  v_name text;
  v_locked text[] := '{}';
begin
  for v_name in
    select c.oid::regclass from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
    order by 1
  loop
    begin
      execute format('set local role %I', p_by);
      execute format('lock table %s in share update exclusive mode', v_name);
      raise exception using errcode = 'UNDO1';
    exception
      when sqlstate 'UNDO1' then v_locked := v_locked || v_name;
      when insufficient_privilege then null;
    end;
  end loop;
  return v_locked;
end $$;
select is(pg_temp.locks('pgrab_t_submit'), '{}', 'who submits locks no table against anybody');
select is(pg_temp.locks('pgrab_t_submit_read'), '{}', 'nor does who reads, too');

-- --------------------------------------------------------------------------------------- what is said then
create function pg_temp.hint(p_by text, p_text text) returns text language plpgsql as $$
declare
  v_hint text;
begin
  execute format('set local role %I', p_by);
  execute p_text;
  return 'permitted';
exception when others then
  get stacked diagnostics v_hint = pg_exception_hint;
  return sqlerrm || ': ' || v_hint;
end $$;
select is(pg_temp.hint('pgrab_t_submit', 'select pgrab.pause_all()'),
  'permission denied for function pause_all: It is for members of pgrab_operator. A role with the '
    'right to do so can say: grant pgrab_operator to pgrab_t_submit.', 'who may not is told who may');
select is(pg_temp.hint('pgrab_t_read', 'select pgrab.pause(1)'),
  'permission denied for function pause: It is for members of pgrab_submit or pgrab_operator. A role '
    'with the right to do so can say: grant pgrab_operator to pgrab_t_read.', 'whatever he calls');

-- ------------------------------------------------------------------------------------------ what is a row's
create role pgrab_t_gone;
insert into pgrab.token (hash, role, expires_at) values ('\x04', 'pgrab_t_gone', now());
drop role pgrab_t_gone;
set local role pgrab_t_submit;
select is((select count(*) from (select role from pgrab.token) t), 1::bigint,
  'the token of a role that is no more is no obstacle');
reset role;
-- an alert that an operator switches off and on stays whose it was: its tasks run as that role
set local role pgrab_t_operator;
update pgrab.alert set enabled = false where name = 'pgrab_t_submit';
update pgrab.alert set enabled = true where name = 'pgrab_t_submit';
select is((select set_by from pgrab.alert where name = 'pgrab_t_submit'), 'pgrab_t_submit',
  'switching an alert on does not make its template one''s own');
update pgrab.alert set template = '{"kind": "noop", "name": "x"}' where name = 'pgrab_t_submit';
select is((select set_by from pgrab.alert where name = 'pgrab_t_submit'), 'pgrab_t_operator',
  'but writing it does');
reset role;

-- ------------------------------------------------------------------------- a file that its reader may apply
set local role pgrab_t_submit;
select lives_ok($$select pgrab.apply(pgrab.export() || '{"tasks": []}')$$,
  'what one exports is nothing that one may not apply');
set local role pgrab_t_operator;
select isnt(pgrab.export() -> 'quotas', null, 'quotas, which are for operators, are there for them');
reset role;

-- ----------------------------------------------------------------------------- what nodes ask now and then
set local role pgrab_t_node;
\ir ../../src/db/sql/tell.sql
\g /dev/null
\ir ../../src/db/sql/waits.sql
\g /dev/null
select pass('a node may call all that tells people, and ends waits');
reset role;
select * from finish();
rollback;
