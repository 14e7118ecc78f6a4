-- Serves: pgrab top.  The runs that began first.  A noop has no started_at.
-- $1 limit, $2 maximum length of names.
select t.id, left(coalesce(t.name, t.key), $2::int) as name, t.kind, t.attempt, left(n.name, $2::int) as node,
  date_trunc('second', statement_timestamp() - t.began_at) as running_for, t.timeout,
  case when l.progress is not null then round(l.progress::numeric, 1)::real || '%' end as progress,
  left(case when l.stopping_at is not null
    then 'stopping for ' || date_trunc('second', statement_timestamp() - l.stopping_at)
    else l.progress_text end, $2::int) as doing
from (
  select h.*, coalesce(h.started_at, h.claimed_at) as began_at
  from pgrab_tool.in_hand() h where h.status = 'running'
  order by began_at limit $1::bigint) t
left join pgrab.node n on n.id = t.node_id
left join pgrab.live l
  on l.incarnation = t.incarnation and l.task_id = t.id and l.version = t.version
order by t.began_at
