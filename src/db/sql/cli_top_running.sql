-- Serves: pgrab top.  The runs that began first.  Plan: as cli_top_overview; behind a large backlog a few may
-- be missing. A run of an instant kind has no started_at of its own.  $1 limit, $2 at most so many characters
-- of names.
select t.id, left(coalesce(t.name, t.key), $2::int) as name, t.kind, t.attempt, left(n.name, $2::int) as node,
  date_trunc('second', statement_timestamp() - t.began_at) as running_for, t.timeout,
  case when l.progress is not null then round(l.progress::numeric, 1)::real || '%' end as progress,
  left(case when l.stopping_at is not null
    then 'stopping for ' || date_trunc('second', statement_timestamp() - l.stopping_at)
    else l.progress_text end, $2::int) as doing
from (
  select t.*, coalesce(t.started_at, t.claimed_at) as began_at
  from (
    select t.*
    from pgrab_internal.due_heads() h
    cross join lateral (
      select t.id, t.name, t.key, t.kind, t.attempt, t.node_id, t.timeout, t.status,
        t.started_at, t.claimed_at, t.incarnation, t.version
      from pgrab.task t
      where t.lane = h.lane and t.shard = h.shard and t.due_at <= statement_timestamp()
      order by t.due_at limit 20) t) t
  where t.status = 'running'
  order by began_at limit $1::bigint) t
left join pgrab.node n on n.id = t.node_id
left join pgrab.live l
  on l.incarnation = t.incarnation and l.task_id = t.id and l.version = t.version
order by t.began_at
