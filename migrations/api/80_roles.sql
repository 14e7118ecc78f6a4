-- Separate roles: what each of them may do.  90_rights.sql calls this when pgrab.cluster says so.
--
--   pgrab_owner     owns everything; not for logging in
--   pgrab_node      what the program of a node needs, and nothing else
--   pgrab_submit    its own tasks, runs, chains, limits, alerts, secrets
--   pgrab_operator  everyone's tasks: when and whether they run, not what they run
--   pgrab_read      sees everything but secrets
--   pgrab_serve     pgrab serve: a reader that can check tokens
--   pgrab_signal    a reader that can send every task its signal
--   pgrab_callback  nothing but pgrab.resolve(): for the door that receivers of requests call back at
--
-- src/db/sql/roles.sql creates the roles.

-- The one place that says who may do what.  Grants and policies are made from it, the public functions ask
-- it who may call them, docs/security.md shows it, and tests/sql/80_roles.sql tries each line as each role.
--
--   own    rows that are the role's own: pgrab_internal.own_rows says which those are
--   all    everybody's
--   null   none
--
-- Who submits has no DELETE on any table: with it, LOCK TABLE would give him any lock on the whole of it.  He
-- deletes by functions.  See docs/adr/0028-rights.md.
create or replace view pgrab_internal.rights as
select r.* from (values
  ('see tasks, runs, chains, limits, calendars, blackouts, alerts, events', '{task,run,edge,chain,limit,
    limit_place,limit_use,limit_start,calendar,calendar_day,blackout,alert,incident,cancel_request,live,
    definition,event,step,wait,signal,batch,batch_count}'::text[], 'select', null::text[], 'own', 'all',
    'all', 'all', null),
  ('see quotas', '{quota}', 'select', null, 'own', 'all', 'all', 'all', null),
  ('see nodes, kinds, settings', '{registration,beat,override,hold,drained,kind,cluster,migration,api,pool,
    node_incident}', 'select', null, 'all', 'all', 'all', 'all', null),
  ('insert tasks', '{task}', 'insert', pgrab_internal.written(), 'own', null, null, null, null),
  ('change `kind`, `command`, `args`, `on_failure`', '{task}', 'update', '{kind,command,args,on_failure}',
    'own', 'own', null, null, null),
  ('change other columns', '{task}', 'update', array(
      select c from unnest(pgrab_internal.written()) c where c <> all ('{kind,command,args,on_failure}')),
    'own', 'all', null, null, null),
  ('pause, resume, retry, cancel, run now, skip, seal, backfill, delete; `apply`, `edit`',
    '{pause,resume,retry,cancel,run_now,skip_next,seal,backfill,delete,delete_chain,apply,edit}', 'call',
    null, 'own', 'all', null, null, null),
  ('`signal`', '{signal}', 'call', null, 'own', 'all', 'own', null, null),
  ('`undelete`', '{undelete}', 'call', null, 'own', 'own', null, null, null),
  ('`delete from pgrab.task`, `.edge`, `.limit`, `.quota`, `.alert`, `.calendar`, `.calendar_day`, '
    '`.blackout`', '{task,edge,limit,quota,alert,calendar,calendar_day,blackout}', 'delete', null, null,
    'all', null, null, null),
  ('`delete from pgrab.tasks`', '{tasks}', 'delete', null, 'own', 'all', null, null, null),
  ('`add`', '{add}', 'call', null, 'own', null, null, null, null),
  ('insert edges', '{edge}', 'insert', '{parent_id,child_id,run_if}', 'own', 'all', null, null, null),
  ('change edges', '{edge}', 'update', '{parent_id,child_id,run_if}', 'own', 'all', null, null, null),
  ('insert limits', '{limit}', 'insert', '{key,max_running,per_second,break_after,break_for}',
    'own', 'own', null, null, null),
  ('change limits', '{limit}', 'update', '{key,max_running,per_second,break_after,break_for}',
    'own', 'all', null, null, null),
  ('insert quotas', '{quota}', 'insert', '{owner,share_key,max_tasks,max_running,inserts_per_minute,max_lanes,
    max_bytes,when_full}', null, 'all', null, null, null),
  ('change quotas', '{quota}', 'update', '{owner,share_key,max_tasks,max_running,inserts_per_minute,max_lanes,
    max_bytes,when_full}', null, 'all', null, null, null),
  ('insert calendars', '{calendar}', 'insert', '{name,closed_weekdays}', 'own', 'own', null, null, null),
  ('change calendars', '{calendar}', 'update', '{name,closed_weekdays}', 'own', 'all', null, null, null),
  ('insert and change days of calendars', '{calendar_day}', 'insert', '{calendar,day,open,note}', 'own',
    'all', null, null, null),
  ('insert and change days of calendars', '{calendar_day}', 'update', '{calendar,day,open,note}', 'own',
    'all', null, null, null),
  ('insert blackouts', '{blackout}', 'insert',
    '{name,during,schedule,lasts,timezone,task_like,source,owner,action,note}', 'own', 'own', null, null,
    null),
  ('change blackouts', '{blackout}', 'update',
    '{name,during,schedule,lasts,timezone,task_like,source,owner,action,note}', 'own', 'all', null, null,
    null),
  ('insert alerts', '{alert}', 'insert', '{name,events,after,schedule,timezone,owner,task_like,source,
    node_like,template,enabled}', 'own', 'own', null, null, null),
  ('change alerts', '{alert}', 'update', '{name,events,after,schedule,timezone,owner,task_like,source,
    node_like,template,enabled}', 'own', 'all', null, null, null),
  ('`delete_edge`, `delete_limit`, `delete_alert`, `delete_calendar`, `delete_calendar_day`', '{delete_edge,
    delete_limit,delete_alert,delete_calendar,delete_calendar_day}', 'call', null, 'own', 'all', null, null,
    null),
  ('`delete_blackout`', '{delete_blackout}', 'call', null, 'own', 'all', null, null, null),
  ('secrets: see their names', '{secret}', 'select', '{owner,name}', 'own', 'own', null, null, null),
  ('secrets: insert', '{secret}', 'insert', '{name,value}', 'own', 'own', null, null, null),
  ('secrets: change', '{secret}', 'update', '{name,value}', 'own', 'own', null, null, null),
  ('secrets: `delete_secret`', '{delete_secret}', 'call', null, 'own', 'own', null, null, null),
  ('tokens: see whose they are', '{token}', 'select', '{role,name,expires_at}', 'own', 'all', null, null,
    null),
  ('tokens: insert, `token_add`', '{token}', 'insert', '{hash,role,name,expires_at}', 'own', 'own', null,
    null, null),
  ('tokens: insert, `token_add`', '{token_add}', 'call', null, 'own', 'own', null, null, null),
  ('tokens: `delete_token`', '{delete_token}', 'call', null, 'own', 'all', null, null, null),
  ('`resolve` with its token; without one, as `cancel`', '{resolve}', 'call', null, 'all', 'all', 'all',
    null, null),
  ('drain, undrain, pause all, resume all, adopt, `rotate_answer_key`',
    '{drain,undrain,pause_all,resume_all,adopt,rotate_answer_key}', 'call', null,
    null, 'all', null, null, null),
  ('set the weight and labels of a node, drain it', '{node}', 'update', '{weight,labels,draining}', null,
    'all', null, null, null),
  ('upkeep', '{upkeep}', 'call', null, null, 'all', null, null, null),
  (null, '{lane,edge_change,duty,live_request,live_output}', 'select', null, null, null, null, 'all', null),
  (null, '{run,hold,registration,beat,live,live_output,pool,kind}', 'insert', null, null, null, null, 'all',
    null),
  (null, '{registration,beat,live,live_output,pool,kind}', 'update', null, null, null, null, 'all', null),
  (null, '{hold,beat,live,live_output,live_request,pool}', 'delete', null, null, null, null, 'all', null),
  ('write what the system writes (`status`, `version`, ...)', '{task}', 'update', '{version,incarnation,
    node_id,due_at,claimed_at,started_at,last_finished_at,runs,fires,failures,attempt,status,last_outcome,
    last_error}', null, null, null, 'all', null),
  (null, '{token}', 'select', '{hash,role,expires_at,last_used_at}', null, null, null, null, 'all'),
  (null, '{token}', 'update', '{last_used_at}', null, null, null, null, 'all'))
  r(says, objects, action, columns, submit, operator, read, node, serve);
comment on view pgrab_internal.rights is
  'Who may do what, where roles are separate. Grants, policies, the checks of public functions, and a table '
  'of docs/security.md are made from it.';
comment on column pgrab_internal.rights.says is
  'In words, for docs/security.md. Null: what only programs do.';
comment on column pgrab_internal.rights.objects is 'Tables, views or functions of the schema pgrab.';
comment on column pgrab_internal.rights.action is 'select, insert, update, delete, call.';
comment on column pgrab_internal.rights.columns is 'Which columns. Null: all.';
comment on column pgrab_internal.rights.submit is 'For pgrab_submit: own, all, or null.';
comment on column pgrab_internal.rights.operator is 'For pgrab_operator.';
comment on column pgrab_internal.rights.read is 'For pgrab_read.';
comment on column pgrab_internal.rights.node is 'For pgrab_node.';
comment on column pgrab_internal.rights.serve is 'For pgrab_serve, beyond what pgrab_read may.';

create or replace view pgrab_internal.role_rights as
select g.role, o.object, r.action, r.columns, g.whose
from pgrab_internal.rights r cross join unnest(r.objects) o(object) cross join lateral (values
  ('pgrab_submit', r.submit), ('pgrab_operator', r.operator), ('pgrab_read', r.read), ('pgrab_node', r.node),
  ('pgrab_serve', r.serve)) g(role, whose)
where g.whose is not null;
comment on view pgrab_internal.role_rights is 'pgrab_internal.rights, a row for each role and object.';
comment on column pgrab_internal.role_rights.role is 'The role.';
comment on column pgrab_internal.role_rights.object is 'Table, view or function of the schema pgrab.';
comment on column pgrab_internal.role_rights.action is 'select, insert, update, delete, call.';
comment on column pgrab_internal.role_rights.columns is 'Which columns. Null: all.';
comment on column pgrab_internal.role_rights.whose is 'own or all.';

-- Tables that are not in this list have no row-level security.
create or replace view pgrab_internal.own_rows as
select o.object, r.condition
from (values
  ('{task,run,secret,definition,limit,calendar,quota}'::text[], 'owner = current_user'),
  ('{calendar_day}',
    'exists (select from pgrab.calendar c where c.name = calendar and c.owner = current_user)'),
  ('{blackout,alert}', 'set_by = current_user'),
  ('{event}', 'owner = current_user or role = current_user'),
  ('{token}', 'pgrab_internal.may_become(current_user, role)'),
  ('{edge}', 'exists (select from pgrab.task t where t.id = child_id and t.owner = current_user)'),
  ('{chain}', 'exists (select from pgrab.task t where t.chain = chain.chain)'),
  ('{incident,cancel_request,live,step,wait,signal,batch}',
    'exists (select from pgrab.task t where t.id = task_id)'),
  ('{batch_count}', 'exists (select from pgrab.task t where t.id = batch_count.batch)'),
  ('{limit_place,limit_use,limit_start}', 'exists (select from pgrab_internal.limit_of(key))'))
    r(objects, condition)
  cross join unnest(r.objects) o(object);
comment on view pgrab_internal.own_rows is 'Which rows of a table are the reader''s own.';
comment on column pgrab_internal.own_rows.object is 'The table.';
comment on column pgrab_internal.own_rows.condition is
  'An expression of a row. Where it asks for a task or a limit without its owner, it is for reading only: '
  'a role that sees these sees the row.';

-- Policies of a table are combined with OR, and so are the grants of somebody who has several roles.  So
-- there is a policy for exactly what is permitted: one for all commands, for a role that only reads, would
-- let those who read and submit write everybody's rows.
create or replace function pgrab_internal.rights_rows() returns void
language plpgsql as $$
declare
  v_text text;
begin
  for v_text in
    select format('drop policy %I on %s', p.polname, p.polrelid::regclass) from pg_policy p
    join pg_class c on c.oid = p.polrelid where c.relnamespace = 'pgrab'::regnamespace
  loop
    execute v_text;
  end loop;
  for v_text in select format('alter table pgrab.%I enable row level security', o.object)
    from pgrab_internal.own_rows o
  loop
    execute v_text;
  end loop;
  for v_text in
    select format('create policy %I on pgrab.%I for %s to %s %s (%s)', w.action || '_' || w.whose, w.object,
      w.action, string_agg(w.role, ', '), case w.action when 'insert' then 'with check' else 'using' end,
      case w.whose when 'all' then 'true' else o.condition end)
    from (select r.object, r.action, r.role, min(r.whose) as whose -- all, if one of several says so
      from pgrab_internal.role_rights r where r.action <> 'call' group by 1, 2, 3) w
      join pgrab_internal.own_rows o on o.object = w.object
    group by w.object, w.action, w.whose, o.condition
  loop
    execute v_text;
  end loop;
  create policy select_shared on pgrab.limit for select to pgrab_submit
    using (pgrab_internal.may_operate(owner));
  create policy select_shared on pgrab.calendar for select to pgrab_submit
    using (pgrab_internal.may_operate(owner));
  create policy select_shared on pgrab.blackout for select to pgrab_submit
    using (pgrab_internal.may_operate(set_by));
  create policy select_shared on pgrab.calendar_day for select to pgrab_submit
    using (exists (select from pgrab.calendar c where c.name = calendar));
end $$;
comment on function pgrab_internal.rights_rows is 'Which rows each role sees and writes.';

create or replace function pgrab_internal.rights_tables() returns void
language plpgsql as $$
declare
  v_text text;
begin
  revoke all on all tables in schema pgrab, pgrab_internal
    from pgrab_submit, pgrab_operator, pgrab_read, pgrab_node, pgrab_serve, pgrab_callback;
  grant usage on schema pgrab, pgrab_tool to pgrab_submit, pgrab_operator, pgrab_read, pgrab_node;
  for v_text in
    select format('grant %s %s on pgrab.%I to %s', r.action, '(' || (
      select string_agg(quote_ident(c), ', ') from unnest(r.columns) c) || ')', r.object, r.role)
    from pgrab_internal.role_rights r where r.action <> 'call'
    union all
    select format('grant select on %s to pgrab_submit, pgrab_operator, pgrab_read, pgrab_node',
      c.oid::regclass)
    from pg_class c where c.relnamespace = 'pgrab'::regnamespace and c.relkind = 'v'
  loop
    execute v_text;
  end loop;
end $$;
comment on function pgrab_internal.rights_tables is
  'What each role may do with tables. Views have the rights of their readers.';

-- A node may update every task, and who submits may update the columns that people write: a role that is both
-- could write these of everybody's tasks.  run_at is left out, because each fire of a schedule writes it; for
-- a node it says nothing that due_at does not.
create or replace function pgrab_internal.rights_when() returns void
language plpgsql as $$
declare
  c_columns constant text[] := array(
    select c from unnest(pgrab_internal.written()) c
    where c <> all ('{kind,command,args,on_failure,run_at}'));
begin
  execute format(
    'create or replace trigger task_05_when after update of %s on pgrab.task for each row '
    'when (new.owner <> current_user and not pgrab_internal.in_call() '
    'and (old.%s) is distinct from (new.%s)) execute function pgrab_tool.task_foreign(''pgrab_operator'')',
    array_to_string(c_columns, ', '), array_to_string(c_columns, ', old.'),
    array_to_string(c_columns, ', new.'));
end $$;
comment on function pgrab_internal.rights_when is
  'Only operators say when and whether the tasks of others run, whatever other roles somebody has.';

create or replace function pgrab_internal.call_check(p_verb text, p_by text) returns void
language plpgsql as $$
declare
  c_roles constant text[] := array(
    select r.role from pgrab_internal.role_rights r where r.object = p_verb and r.action = 'call'
    union all select 'pgrab_callback' where p_verb = 'resolve');
begin
  if exists (select from unnest(c_roles) r where pgrab_internal.is_member(p_by, r))
    or pgrab_internal.is_member(p_by, pgrab_internal.pgrab_owner())
    or not (select c.roles from pgrab.cluster c) then
    return;
  end if;
  raise exception using errcode = '42501', message = format('permission denied for function %s', p_verb),
    hint = format('It is for members of %s. A role with the right to do so can say: grant %I to %I.',
      array_to_string(c_roles, ' or '), c_roles[cardinality(c_roles)], p_by);
end $$;
comment on function pgrab_internal.call_check is 'Refuses a public function to a role that may not call it.';

-- A role that uses a view, a parsed function or a trigger needs EXECUTE on the functions that it names.
-- Without USAGE on their schema, the role can call them in no other way.
create or replace function pgrab_internal.rights_routines() returns void
language plpgsql as $$
declare
  c_people constant text := 'pgrab_submit, pgrab_operator, pgrab_read';
  -- of the others call_check() says who may call them
  c_unchecked constant text[] := '{add,edit,resolve,token_add,upkeep}';
  r record;
begin
  for r in
    select p.oid::regprocedure as name, case when p.proname <> all (c_unchecked) then c_people
      else (select string_agg(x.role, ', ') from pgrab_internal.role_rights x
        where x.object = p.proname and x.action = 'call') end as roles
    from pg_proc p where p.pronamespace in ('pgrab'::regnamespace, 'pgrab_tool'::regnamespace)
    union all
    select distinct p.oid::regprocedure, c_people || ', pgrab_node'
    from pg_proc p join pg_depend d on d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
    where p.pronamespace = 'pgrab_internal'::regnamespace
      and (d.classid in ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass)
        or d.classid = 'pg_proc'::regclass and exists (
          select from pg_proc q where q.oid = d.objid and q.prosqlbody is not null))
      and not (p.prorettype = 'trigger'::regtype)
  loop
    execute format('grant execute on routine %s to %s', r.name, r.roles);
  end loop;
  grant insert (verb, ids, word, file, done), select on pgrab_internal.call
    to pgrab_submit, pgrab_operator, pgrab_read;
  grant usage on schema pgrab to pgrab_callback;
  grant execute on function pgrab.resolve(bigint, text, jsonb),
    pgrab_tool.call(text, text, bigint[], jsonb) to pgrab_callback;
  grant insert (verb, ids, word, file), select on pgrab_internal.call to pgrab_callback;
end $$;
comment on function pgrab_internal.rights_routines is 'What each role may call.';

-- Functions that the statements in src/db/sql use.
create or replace function pgrab_internal.rights_node() returns void
language plpgsql as $$
declare
  c_calls constant text[] := '{end_sql_backends,finish,recover,misfire,is_copy,limit_take,limit_give_back,
    limit_tick,limit_waits,waits_tick,batches_tick,lanes_tick,chain_tick,strays_tick,ring,
    move,park,args_for,secrets,answer_token,run_key_make,run_proof,check_run,finish_run,finish_runs,step_run,
    steps_record,pools_announce,node_died,node_back,overdue_tick,slow_tick,waiting_tick,clock_tick,
    notices_tell,quotas_tick,calendars_tick,blackouts_tick,blackout_patterns,blackout_setters,shut,
    days_ahead,upkeep}';
  r record;
begin
  grant usage on schema pgrab_internal to pgrab_node;
  grant select on pgrab_internal.run_key to pgrab_node;
  grant execute on function pgrab.shard(bigint), pgrab_tool.lane_of(pgrab_internal.task),
    pgrab_tool.run_is_failure(text),
    pgrab_tool.run_waited(timestamptz, timestamptz, timestamptz, timestamptz) to pgrab_node;
  for r in
    select p.oid::regprocedure as name from pg_proc p
    where p.pronamespace = 'pgrab_internal'::regnamespace
      and (p.proname = any (c_calls) or p.prosqlbody is not null)
  loop
    execute format('grant execute on routine %s to pgrab_node', r.name);
  end loop;
end $$;
comment on function pgrab_internal.rights_node is 'What a node may call.';
