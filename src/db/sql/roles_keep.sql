-- What has to be granted so that the tasks that are there, and those that alerts insert, run when roles are
-- separate.  Nothing once they are: what was revoked since stays revoked.
-- Serves: db/migrate_roles.c, pgrab migrate --roles, before the schema gets another owner.
with used as (
  select t.owner, t.kind from pgrab.task t
  union select t.owner, coalesce(t.on_failure ->> 'kind', 'sql') from pgrab.task t
  where t.on_failure is not null
  union select a.set_by, coalesce(a.template ->> 'kind', 'sql') from pgrab.alert a),
missing as (
  select u.owner, u.kind, 'pgrab_kind_' || u.kind as role, to_regrole('pgrab_kind_' || u.kind) as is
  from used u join pg_roles o on o.rolname = u.owner
  where not (select c.roles from pgrab.cluster c))
select format('create role %I nologin', m.role), m.role from missing m where m.is is null group by m.role
union all
select format('grant %I to %I', m.role, m.owner), m.owner
from missing m where m.is is null or not pg_has_role(m.owner, m.is, 'USAGE')
order by 1
