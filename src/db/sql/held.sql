-- After a claim or start whose reply was lost: which of these rows does this incarnation hold, and have they
-- been started?
-- A node's loaders never share a shard, so what one of them asks about is nobody else's of this incarnation.
-- Serves: loader, starter.
-- $1 ids, $2 versions (as they are if the statement went through), $3 incarnation.
select :run_columns
from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
join pgrab.task t on t.id = any (array[c.id]) and t.version = c.version
where t.incarnation = $3::bigint and t.status in ('claimed', 'running')
