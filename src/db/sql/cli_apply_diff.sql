-- Serves: pgrab apply.  What has changed since cli_apply_before, without the system's columns.
with now as (
  select t.id, coalesce(t.key, t.name, '#' || t.id) as name, to_jsonb(t) as definition from pgrab.task t),
written as (
  select unnest('{name,kind,command,args,schedule,timezone,misfire,misfire_after,misfire_limit,starts_at,
    ends_at,max_runs,jitter,priority,timeout,max_attempts,backoff,backoff_max,delivery,run_if,require,
    limit_key,on_failure,expect_within,stall_after,keep,key,paused,source,parent_id}'::text[]) as k)
select case when b.id is null then 'add' when n.id is null then 'delete' else 'change' end as action,
  coalesce(n.name, b.name) as task,
  case when b.id is null then concat_ws(' ', n.definition ->> 'kind', n.definition ->> 'schedule',
      left(n.definition ->> 'command', 60))
    else d.text end as what
from pg_temp.pgrab_before b full join now n on n.id = b.id
  cross join lateral (
    select string_agg(format('%s: %s -> %s', w.k, coalesce(left(b.definition ->> w.k, 60), 'null'),
      coalesce(left(n.definition ->> w.k, 60), 'null')), '; ' order by w.k) as text
    from written w where n.definition -> w.k is distinct from b.definition -> w.k) d
where b.id is null or n.id is null or d.text is not null
order by 1, 2
