-- Serves: pgrab resolve, and the page.  Raises for an unknown task, or one that does not wait for an answer.
-- $1 id, key or name, $2 the outcome, $3 its output, or the error of failed; null: none.
select i.id, coalesce(t.name, t.key) as name, t.kind,
  pgrab.resolve(i.id, jsonb_strip_nulls(jsonb_build_object('outcome', $2::text,
    case when $2::text = 'failed' then 'error' else 'output' end, $3::text))) as outcome
from (select pgrab_tool.id_of($1::text) as id) i left join pgrab.task t on t.id = i.id
