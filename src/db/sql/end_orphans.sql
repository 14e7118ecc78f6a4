-- Before tasks are put back: sql backends of incarnations that no node has are ended, for they would work on
-- with nobody to fence them.
-- Serves: recover.  Returns how many could not be; what they do is not put back (pgrab.held_by_nobody).
select e.kept
from (
  select array_agg(distinct a.application_name) as names from pg_stat_activity a
  where a.datname = current_database() and starts_with(a.application_name, 'pgrab sql ')
    and not exists (select from pgrab.node n where n.state <> 'down'
      and a.application_name = 'pgrab sql ' || n.incarnation)) o
  cross join lateral pgrab_internal.end_sql_backends(o.names) e
