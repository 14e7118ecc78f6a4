-- Serves: pgrab apply.  What has changed since cli_apply_before, without the system's columns.  Only what
-- differs is taken apart.
with changed as materialized (
  select coalesce(n.object, b.object) as object, coalesce(n.name, b.name) as name, b.definition as old,
    n.definition as new
  from pg_temp.pgrab_before b full join pgrab_tool.applied() n on n.object = b.object and n.id = b.id
  where n.definition is distinct from b.definition)
select case when c.old is null then 'add' when c.new is null then 'delete' else 'change' end as action,
  c.object, c.name,
  case when c.object = 'task' and (c.old is null or c.new is null) then (
      select concat_ws(' ', t.is ->> 'kind', t.is ->> 'schedule', left(t.is ->> 'command', 60))
      from (select coalesce(c.new, c.old) as is) t)
    else d.text end as what
from changed c cross join lateral (
    select string_agg(concat(w.k, ': ',
      case when c.old is not null then coalesce(left(c.old ->> w.k, 60), 'null') || ' -> ' end,
      coalesce(left(c.new ->> w.k, 60), 'null')), '; ' order by w.k) as text
    from jsonb_object_keys(coalesce(c.new, c.old)) w(k)
    where (w.k = any (pgrab_tool.task_columns() || 'parents'::text) or c.object <> 'task')
      and c.new ->> w.k is distinct from c.old ->> w.k) d
where c.old is null or c.new is null or d.text is not null
order by 1, 2 desc, 3
