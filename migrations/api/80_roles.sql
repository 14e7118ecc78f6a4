-- Separate roles: what each of them may do.  90_rights.sql calls this when pgrab.cluster says so.
--
--   pgrab_owner     owns everything; not for logging in
--   pgrab_node      what the program of a node needs, and nothing else
--   pgrab_submit    its own tasks, runs, chains, limits, alerts, secrets
--   pgrab_operator  everyone's tasks: when and whether they run, not what they run
--   pgrab_read      sees everything but secrets
--   pgrab_serve     pgrab serve: a reader that can check tokens
--
-- src/db/sql/roles.sql creates the roles.

-- p_own: the condition for rows that a submitter sees and writes; the other roles see all.
create or replace function pgrab_internal.rights_rows(p_table regclass, p_own text) returns void
language plpgsql as $$
declare
  v_policy text;
begin
  for v_policy in select p.polname from pg_policy p where p.polrelid = p_table loop
    execute format('drop policy %I on %s', v_policy, p_table);
  end loop;
  execute format('alter table %s enable row level security', p_table);
  execute format('create policy own on %s to pgrab_submit using (%s) with check (%2$s)', p_table, p_own);
  if p_table <> 'pgrab.secret'::regclass then
    execute format('create policy every on %s to pgrab_node, pgrab_operator, pgrab_read using (true)',
      p_table);
  end if;
end $$;
comment on function pgrab_internal.rights_rows(regclass, text) is 'Row-level security of a table.';

-- Edges, places and the like are visible to roles that see their task or limit.
create or replace function pgrab_internal.rights_tables() returns void
language plpgsql as $$
begin
  perform pgrab_internal.rights_rows(x.name, x.own) from (values
    ('pgrab.task'::regclass, 'owner = current_user'), ('pgrab.run', 'owner = current_user'),
    ('pgrab.secret', 'owner = current_user'), ('pgrab.alert', 'set_by = current_user'),
    ('pgrab.definition', 'owner = current_user'), ('pgrab.token', 'pg_has_role(role, ''MEMBER'')'),
    ('pgrab.event', 'owner = current_user or role = current_user'), ('pgrab.limit', 'owner = current_user'),
    ('pgrab.edge', 'exists (select from pgrab.task t where t.id = child_id)'),
    ('pgrab.chain', 'exists (select from pgrab.task t where t.chain = chain.chain)'),
    ('pgrab.incident', 'exists (select from pgrab.task t where t.id = task_id)'),
    ('pgrab.cancel_request', 'exists (select from pgrab.task t where t.id = task_id)'),
    ('pgrab.live', 'exists (select from pgrab.task t where t.id = task_id)'),
    ('pgrab.limit_place', 'exists (select from pgrab.limit l where l.key = limit_place.key)'),
    ('pgrab.limit_use', 'exists (select from pgrab.limit l where l.key = limit_use.key)'),
    ('pgrab.limit_start', 'exists (select from pgrab.limit l where l.key = limit_start.key)')) x(name, own);
  create policy shared on pgrab.limit for select to pgrab_submit using (pgrab_internal.may_operate(owner));
  create policy known on pgrab.token to pgrab_serve using (true);
  create policy own_secret on pgrab.secret to pgrab_operator
    using (owner = current_user) with check (owner = current_user);
end $$;
comment on function pgrab_internal.rights_tables() is 'Which rows each role sees and writes.';

create or replace function pgrab_internal.rights_people() returns void
language plpgsql as $$
declare
  c_columns constant text := (
    select string_agg(quote_ident(c), ', ') from unnest(pgrab_internal.written()) c);
  r record;
begin
  grant usage on schema pgrab to pgrab_submit, pgrab_operator, pgrab_read;
  for r in
    select c.oid::regclass as name from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and not c.relispartition
      and (c.relkind = 'v' or c.relname in ('task', 'run', 'event', 'registration', 'beat', 'weight',
        'hold', 'drained', 'kind', 'cluster', 'migration', 'api', 'edge', 'chain', 'incident', 'alert',
        'node_incident', 'definition', 'cancel_request', 'live', 'pool', 'limit',
        'limit_place', 'limit_use', 'limit_start'))
  loop
    execute format('grant select on %s to pgrab_submit, pgrab_operator, pgrab_read', r.name);
  end loop;
  execute format('grant insert (%s), update (%1$s), delete on pgrab.task to pgrab_submit', c_columns);
  execute format('grant update (%s), delete on pgrab.task to pgrab_operator', c_columns);
  grant insert (parent_id, child_id, run_if), update (parent_id, child_id, run_if), delete on pgrab.edge
    to pgrab_submit, pgrab_operator;
  grant insert (key, max_running, per_second), update (key, max_running, per_second), delete on pgrab.limit
    to pgrab_submit, pgrab_operator;
  grant insert (name, events, owner, task_like, source, node_like, template, enabled),
    update (name, events, owner, task_like, source, node_like, template, enabled), delete on pgrab.alert
    to pgrab_submit, pgrab_operator;
  grant update (weight) on pgrab.node to pgrab_operator;
  grant select (owner, name), insert (name, value), update (name, value), delete on pgrab.secret
    to pgrab_submit, pgrab_operator;
  grant select (role, name, expires_at), insert (hash, role, name, expires_at), delete on pgrab.token
    to pgrab_submit, pgrab_operator;
  grant select (hash, role, expires_at, last_used_at), update (last_used_at) on pgrab.token to pgrab_serve;
  grant insert (verb, ids, word, file, done), select on pgrab_internal.call to pgrab_submit, pgrab_operator;
end $$;
comment on function pgrab_internal.rights_people() is
  'What submitters, operators and readers may do with tables.';

-- A role that uses a view, a parsed function or a trigger needs EXECUTE on the functions that it names.
-- Without USAGE on their schema, the role can call them in no other way.
create or replace function pgrab_internal.rights_routines() returns void
language plpgsql as $$
declare
  c_operate constant text[] := '{drain,undrain,pause_all,resume_all,adopt,upkeep}';
  c_write constant text[] := '{pause,resume,retry,cancel,run_now,skip_next,delete,delete_chain,apply,add,edit,
    token_add,alert_late}';
  r record;
begin
  for r in
    select p.oid::regprocedure as name, case when p.proname = any (c_operate) then 'pgrab_operator'
      when p.proname = any (c_write) then 'pgrab_submit, pgrab_operator'
      else 'pgrab_submit, pgrab_operator, pgrab_read' end as roles
    from pg_proc p where p.pronamespace = 'pgrab'::regnamespace
    union all
    select distinct p.oid::regprocedure, 'pgrab_submit, pgrab_operator, pgrab_read, pgrab_node'
    from pg_proc p join pg_depend d on d.refclassid = 'pg_proc'::regclass and d.refobjid = p.oid
    where p.pronamespace = 'pgrab_internal'::regnamespace
      and (d.classid in ('pg_rewrite'::regclass, 'pg_trigger'::regclass, 'pg_policy'::regclass)
        or d.classid = 'pg_proc'::regclass and exists (
          select from pg_proc q where q.oid = d.objid and q.prosqlbody is not null))
      and not (p.prorettype = 'trigger'::regtype)
  loop
    execute format('grant execute on routine %s to %s', r.name, r.roles);
  end loop;
end $$;
comment on function pgrab_internal.rights_routines() is 'What each role may call.';

-- Everything that the statements in src/db/sql use, and no column of a task that users write.
create or replace function pgrab_internal.rights_node() returns void
language plpgsql as $$
declare
  c_calls constant text[] := '{end_sql_backends,finish,recover,misfire,is_copy,limit_take,limit_give_back,
    limit_tick,limit_waits,lanes_tick,ring,link_parked,
    args_for,secrets,run_key_make,run_proof,check_run,finish_run,
    pools_announce,node_died,node_back}';
  r record;
begin
  grant usage on schema pgrab, pgrab_internal to pgrab_node;
  grant select on all tables in schema pgrab to pgrab_node;
  revoke select on pgrab.secret, pgrab.token from pgrab_node;
  grant select on pgrab_internal.run_key to pgrab_node;
  grant update (version, incarnation, node_id, due_at, claimed_at, started_at, last_finished_at, runs, fires,
    failures, attempt, status, last_outcome, last_error) on pgrab.task to pgrab_node;
  grant insert on pgrab.run to pgrab_node;
  grant insert, delete on pgrab.hold to pgrab_node;
  grant insert, update on pgrab.registration to pgrab_node;
  grant insert, update, delete on pgrab.beat to pgrab_node;
  grant insert, update, delete on pgrab.live, pgrab.live_output to pgrab_node;
  grant delete on pgrab.live_request to pgrab_node;
  grant insert, update, delete on pgrab.pool to pgrab_node;
  grant insert, update on pgrab.kind to pgrab_node;
  grant execute on function pgrab.upkeep(interval, integer) to pgrab_node;
  for r in
    select p.oid::regprocedure as name from pg_proc p
    where p.pronamespace = 'pgrab_internal'::regnamespace
      and (p.proname = any (c_calls) or p.prosqlbody is not null)
  loop
    execute format('grant execute on routine %s to pgrab_node', r.name);
  end loop;
end $$;
comment on function pgrab_internal.rights_node() is 'What a node may do.';
