-- Serves: pgrab apply.  What has changed since cli_apply_before, without the system's columns.
with now as (
  select t.id, coalesce(t.key, t.name, '#' || t.id) as name, to_jsonb(t) as definition from pgrab.task t)
select case when b.id is null then 'add' when n.id is null then 'delete' else 'change' end as action,
  coalesce(n.name, b.name) as task,
  case when b.id is null then concat_ws(' ', n.definition ->> 'kind', n.definition ->> 'schedule',
      left(n.definition ->> 'command', 60))
    else d.text end as what
from pg_temp.pgrab_before b full join now n on n.id = b.id
  cross join lateral (
    select string_agg(format('%s: %s -> %s', w.k, coalesce(left(b.definition ->> w.k, 60), 'null'),
      coalesce(left(n.definition ->> w.k, 60), 'null')), '; ' order by w.k) as text
    from unnest(pgrab_tool.task_columns()) w(k)
    where w.k <> 'run_at' and n.definition -> w.k is distinct from b.definition -> w.k) d
where b.id is null or n.id is null or d.text is not null
order by 1, 2
