-- Serves: pgrab top.  The tasks that have been late for longest, and why.  Plan: as cli_top_overview; why()
-- for those shown only. $1 limit, $2 at most so many characters of names.
select t.id, left(t.name, $2::int) as name, t.kind,
  date_trunc('second', statement_timestamp() - t.since) as late_by,
  pgrab.why((select x from pgrab.task x where x.id = t.id)) as why
from (
  select t.*
  from (
    select t.*
    from pgrab_internal.due_heads() h
    cross join lateral (
      select t.id, coalesce(t.name, t.key) as name, t.kind, t.status, t.due_at as since from pgrab.task t
      where t.lane = h.lane and t.shard = h.shard and t.due_at <= statement_timestamp() - interval '2 s'
      order by t.due_at limit 20) t
    union all
    (select t.id, coalesce(t.name, t.key), t.kind, t.status,
       case when t.status = 'scheduled' then t.fire_at end
     from pgrab.task t where t.due_at is null and t.limit_key is not null and not t.paused
     order by t.limit_key, t.lane & 7, t.fire_at limit 20000)) t
  where t.status <> 'running' and t.since <= statement_timestamp() - interval '2 s'
  order by t.since limit $1::bigint) t
order by t.since
