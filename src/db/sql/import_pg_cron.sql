-- The jobs of pg_cron, as tasks.  Serves: pgrab import pg_cron; runs in the database that pg_cron is in,
-- which need not have a schema pgrab.  $1 time zone if cron.timezone is not set, $2 database (null: this
-- one), $3 role (null: all).  to_jsonb(), because the columns depend on the version of pg_cron.
with job as (
  select (r ->> 'jobid')::bigint as id, nullif(r ->> 'jobname', '') as name, r ->> 'schedule' as schedule,
    r ->> 'command' as command, r ->> 'database' as database, r ->> 'username' as role,
    coalesce((r ->> 'active')::boolean, true) as active
  from (select to_jsonb(j) as r from cron.job j) x),
said as (
  select j.*, case when j.schedule ~* '^\s*[0-9]+\s+seconds?\s*$'
      then '@every ' || substring(j.schedule from '[0-9]+') || 's'
      else btrim(regexp_replace(replace(j.schedule, '$', 'L'), '\s+', ' ', 'g')) end as fires
  from job j)
select format('job %s%s', s.id, ' ' || quote_literal(s.name)) as what,
  case when s.database <> coalesce($2::text, current_database()) then format('it runs in database %s, but '
      'pgrab runs SQL in its own database: import it there, with --database %1$s', s.database)
    when s.fires ~* '^@reboot' then '@reboot has no counterpart' end as left_out,
  case when s.role <> current_user
    then format('it ran as %s; its task will belong to the role that applies the file', s.role) end as note,
  json_build_array(json_strip_nulls(json_build_object(
    'key', coalesce(s.name, 'cron-' || s.id), 'kind', 'sql', 'command', s.command, 'schedule', s.fires,
    'timezone', coalesce(case when current_setting('cron.timezone', true) = 'GMT' then 'UTC'
      else nullif(current_setting('cron.timezone', true), '') end, $1::text),
    -- statements that refuse to run in a transaction, perhaps behind comments
    'args', case when s.command ~* ('^(\s|--[^\n]*\n|/\*([^*]|\*[^/])*\*/)*'
        '(vacuum|call|(create|drop|reindex)\M.*\mconcurrently|alter\s+system'
        '|(create|drop|reindex)\s+(database|tablespace|system))\M')
      then '{"transaction": false}'::json end,
    'paused', case when not s.active then true end))) as tasks
from said s
where $3::text is null or s.role = $3
order by s.id
