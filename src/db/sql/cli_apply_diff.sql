-- Serves: pgrab apply.  What has changed since cli_apply_before, without the system's columns.
select case when b.id is null then 'add' when n.id is null then 'delete' else 'change' end as action,
  coalesce(n.object, b.object) as object, coalesce(n.name, b.name) as name,
  case when coalesce(n.object, b.object) = 'task' and (b.id is null or n.id is null) then (
      select concat_ws(' ', t.is ->> 'kind', t.is ->> 'schedule', left(t.is ->> 'command', 60))
      from (select coalesce(n.definition, b.definition) as is) t)
    else d.text end as what
from pg_temp.pgrab_before b full join pgrab_tool.applied() n on n.object = b.object and n.id = b.id
  cross join lateral (
    select string_agg(concat(w.k, ': ',
      case when b.id is not null then coalesce(left(b.definition ->> w.k, 60), 'null') || ' -> ' end,
      coalesce(left(n.definition ->> w.k, 60), 'null')), '; ' order by w.k) as text
    from jsonb_object_keys(coalesce(n.definition, b.definition)) w(k)
    where (w.k = any (pgrab_tool.task_columns() || 'parents'::text) or coalesce(n.object, b.object) <> 'task')
      and n.definition ->> w.k is distinct from b.definition ->> w.k) d
where n.definition is distinct from b.definition and (b.id is null or n.id is null or d.text is not null)
order by 1, 2 desc, 3
