-- Before tasks are put back: ends the sql backends of incarnations that no node has, which would otherwise
-- continue without a lease.
-- Serves: recover.  Returns how many could not be ended; their runs are not put back
-- (pgrab_internal.lost_batch).
select e.kept
from (
  select array_agg(distinct a.application_name) as names from pg_stat_activity a
  where a.datname = current_database() and starts_with(a.application_name, 'pgrab sql ')
    and not exists (select from pgrab.node n where n.state <> 'down'
      and a.application_name = 'pgrab sql ' || n.incarnation)) o
  cross join lateral pgrab_internal.end_sql_backends(o.names) e
