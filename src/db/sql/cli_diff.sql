-- Serves: pgrab diff.  Plan: definition_pkey.  $1 id, key or name, $2 since (null: all), $3 limit.
select date_trunc('second', c.at) as at, c.role, c.changed, c.before, c.after
from pgrab.changes($1::text) c
where c.at >= coalesce(pgrab_tool.moment($2::text), '-infinity')
order by c.version desc, c.changed
limit $3::bigint
