-- For runs that were counted as started but could not begin (fork refused): takes back the attempt, tries the
-- task again in a moment, and gives back its place under a limit, which adds no row to the result.
-- Serves: finisher.  Plan: task_pkey by id.
-- $1 ids, $2 versions, $3 incarnations.
with back as (
  update pgrab.task t
  set status = 'scheduled', attempt = t.attempt - 1,
    due_at = case when not t.paused then clock_timestamp() + interval '2 s' end,
    version = t.version + 1, node_id = null, incarnation = null, claimed_at = null, started_at = null
  from unnest((select $1::bigint[]), (select $2::bigint[]), (select $3::bigint[])) as f(id, version,
    incarnation)
  where t.id = any (array[f.id]) and t.version = f.version and t.incarnation = f.incarnation
    and t.status = 'running'
  returning t.id, f.version)
select b.id, b.version from back b
union all
select null, null from pgrab_internal.limit_give_back($1::bigint[], $2::bigint[], $3::bigint[]) freed
  where freed < 0
