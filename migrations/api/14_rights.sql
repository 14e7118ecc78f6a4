-- Who may do what, as far as it depends on the row; for grants on tables see docs/security.md and
-- 90_rights.sql.

-- A membership may be without INHERIT, and from PostgreSQL 16 on without SET, too: then it gives no rights to
-- tables, and none here.
create or replace function pgrab_internal.is_member(p_role text, p_of text) returns boolean
language sql stable
return case when greatest(octet_length(p_role), octet_length(p_of)) < 64 -- a longer one would be cut
  then coalesce(pg_catalog.pg_has_role(
    pg_catalog.to_regrole(pg_catalog.quote_ident(p_role))::oid,
    pg_catalog.to_regrole(pg_catalog.quote_ident(p_of))::oid, 'USAGE'), false) else false end;
comment on function pgrab_internal.is_member is
  'Has the first role inherited the rights of the second, directly or not? False when there is no such role.';

create or replace function pgrab_internal.may_become(p_role text, p_of text) returns boolean
language sql stable
return exists (
  select from pg_catalog.pg_roles r join pg_catalog.pg_roles o on o.rolname = p_of
  where r.rolname = p_role and pg_catalog.pg_has_role(r.oid, o.oid, case
    when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end));
comment on function pgrab_internal.may_become is
  'May the first role SET ROLE to the second? A client with a token of a role is that role.';

create or replace function pgrab_internal.pgrab_owner() returns text
language sql stable
begin atomic
  select pg_catalog.pg_get_userbyid(n.nspowner) from pg_catalog.pg_namespace n where n.nspname = 'pgrab';
end;
comment on function pgrab_internal.pgrab_owner is 'The role that owns pgrab.';

create or replace function pgrab_internal.may_operate(p_role text) returns boolean
language sql stable
begin atomic
  select not c.roles or pgrab_internal.is_member(p_role, 'pgrab_operator')
    or pgrab_internal.is_member(p_role, pgrab_internal.pgrab_owner())
  from pgrab.cluster c;
end;
comment on function pgrab_internal.may_operate is
  'May this role act on everyone''s tasks? Always, where one role does everything.';

create or replace function pgrab_internal.is_for(p_owner text, p_task_owner text) returns boolean
language sql stable
return p_owner = p_task_owner or pgrab_internal.may_operate(p_owner);
comment on function pgrab_internal.is_for is
  'Is a limit or a calendar of one role for the tasks of another? Those of operators are for everyone''s.';

-- The role that owns pgrab could give itself any right.
create or replace function pgrab_internal.may_kind(p_owner text, p_kind text) returns boolean
language sql stable
begin atomic
  select not c.roles or pgrab_internal.is_member(p_owner, 'pgrab_kind_' || p_kind)
    or p_owner = pgrab_internal.pgrab_owner()
  from pgrab.cluster c;
end;
comment on function pgrab_internal.may_kind is
  'May this role have tasks of this kind? Always, where one role does everything; otherwise if it is a '
  'member of pgrab_kind_<kind>, or the owner of pgrab. Checked when a task is inserted, when its kind '
  'changes, and when it is started.';

-- Checks each pair once, however many tasks are started together.
create or replace function pgrab_internal.kinds_granted(p_ids bigint[]) returns table (owner text, kind text)
language sql stable
begin atomic
  select d.owner, d.kind
  from (
    select distinct t.owner::text as owner, t.kind
    from unnest(p_ids) c(id) join pgrab.task t on t.id = any (array[c.id])) d
  where pgrab_internal.may_kind(d.owner, d.kind);
end;
comment on function pgrab_internal.kinds_granted is
  'The pairs of owner and kind among these tasks that are permitted. Checked at a start, where roles are '
  'separate.';

create or replace function pgrab_internal.kind_refuse(p_owner text, p_kind text) returns void
language plpgsql as $$
begin
  if not pgrab_internal.may_kind(p_owner, p_kind) then
    raise exception using errcode = '42501', schema = 'pgrab', table = 'task', column = 'kind',
      message = format('%s may not have tasks of kind %s', p_owner, p_kind),
      hint = format('A role with the right to do so can grant it: grant %I to %I.', 'pgrab_kind_' || p_kind,
        p_owner);
  end if;
end $$;
comment on function pgrab_internal.kind_refuse is 'Refuses a kind that this role was not granted.';

-- Protects other users' tasks; the bounds are columns of pgrab.cluster.
create or replace function pgrab_internal.owner_bounds(t pgrab_internal.task, p_by text) returns void
language plpgsql as $$
declare
  c constant pgrab_internal.cluster := (select x from pgrab.cluster x);
begin
  if not c.roles or t.priority <= c.submit_priority and t.misfire_limit <= c.submit_misfire_limit
    or pgrab_internal.may_operate(p_by) then
    return;
  elsif t.priority > c.submit_priority then
    perform pgrab_internal.refuse('priority', t.priority::text,
      format('At most %s; an operator can set a higher one.', c.submit_priority));
  end if;
  perform pgrab_internal.refuse('misfire_limit', t.misfire_limit::text,
    format('At most %s; an operator can set a higher one.', c.submit_misfire_limit));
end $$;
comment on function pgrab_internal.owner_bounds is
  'Refuses a priority or a misfire_limit that only operators may set.';

-- Only for tasks that a node holds, and only secrets of the task's owner.
create or replace function pgrab_internal.secrets(p_ids bigint[], p_versions bigint[], p_names text[])
returns table (task_id bigint, name text, value text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.id, s.name, s.value
  from unnest(p_ids, p_versions, p_names) w(id, version, name)
    join pgrab.task t on t.id = any (array[w.id]) and t.version = w.version
    join pgrab.secret s on s.owner = t.owner and s.name = w.name
  where t.status in ('claimed', 'running')
$$;
comment on function pgrab_internal.secrets is
  'For nodes, at a start: the values of pgrab.secret that these tasks name. Three arrays of equal length: '
  'task, its version as the node holds it, name of the secret (a task that names two appears twice). '
  'Returns a row for each secret that the owner has; none for an unknown name, or a task that is not held '
  'with this version.';
