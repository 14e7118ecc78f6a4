-- Sql backends of incarnations that no node has, for owners that this node can log in as: perhaps no other
-- node can end them.
-- Serves: recover.  $1 owners.
select a.usename, a.pid, a.application_name from pg_stat_activity a
where a.datname = current_database() and starts_with(a.application_name, 'pgrab sql ')
  and a.usename = any ($1::text[])
  and not exists (select from pgrab.node n where n.state <> 'down'
    and a.application_name = 'pgrab sql ' || n.incarnation)
