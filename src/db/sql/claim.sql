-- The versioned claim: the candidates that no other node has taken become ours, and their ids are written
-- down (pgrab.hold).
-- Serves: loader.  Plan: nested loop, task_pkey by id; one HOT update per row.  Candidates are sorted by id,
-- so that all nodes lock in the same order.  Idioms: see 26_finish.sql.  (The arrays come through (select
-- ...), so that the planner does not know their length: this is not a function with settings of its own.)  A
-- task that can start at once, because its kind is instant or a worker or handler is free ($5), and that was
-- due at the look ($8), is started right here; a noop gets no start time, because nothing uses it.  Not on
-- its last attempt: a node that dies between this and the beginning would have it parked for nothing.
-- $1 ids, $2 versions, $3 node, $4 incarnation, $5 kinds that start at once, $6 number of this claim, $7
-- claims that are over, $8 the latest due time of tasks to start at once (us since 1970).
with won as (
  update pgrab.task t
  set (status, attempt, started_at) = (
      select case when s.now then 'running' else 'claimed' end,
        t.attempt + case when s.now then 1 else 0 end,
        case when t.kind <> 'noop' and s.now then clock_timestamp() end
      from (select :at_once as now offset 0) s),
    version = t.version + 1, node_id = $3::bigint, incarnation = $4::bigint, claimed_at = clock_timestamp()
  from unnest((select $1::bigint[]), (select $2::bigint[])) as c(id, version)
  where t.id = any (array[c.id]) and t.version = c.version and case when t.status = 'scheduled' then true end
    and not (select c.paused from pgrab.cluster c)
  returning :run_columns),
held as (
  insert into pgrab.hold (incarnation, batch, ids)
  select $4::bigint, $6::bigint, array_agg(w.id) from won w having count(*) > 0),
over as (
  delete from pgrab.hold h where h.incarnation = $4::bigint and h.batch = any ($7::bigint[]))
select w.* from won w
