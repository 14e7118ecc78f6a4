-- Manual control of nodes, and of the cluster as a whole: drain a node, pause all tasks, adopt a copy of a
-- database.  See 50_control.sql.

create or replace function pgrab_internal.node_of(p_name text) returns pgrab.node
language plpgsql stable as $$
declare
  n pgrab.node;
begin
  select * into n from pgrab.node x where x.name = p_name;
  if found then
    return n;
  end if;
  raise exception using errcode = 'P0002',
    message = format('there is no node %s', coalesce(quote_literal(p_name), 'null')),
    hint = coalesce('Nodes are: ' || (
      select string_agg(k.name, ', ' order by k.name)
      from (select x.name from pgrab.node x order by x.state = 'down', x.name limit 20) k) || '.',
      'No node has ever registered; start one: pgrab run.');
end $$;
comment on function pgrab_internal.node_of(text) is
  'A node by its name; refuses a name that no node has, and says which names there are.';

create or replace function pgrab_internal.drain(p_node text, p_by text) returns pgrab.node
language plpgsql as $$
declare
  n pgrab.node := pgrab_internal.node_of(p_node);
begin
  insert into pgrab.drained (node_id, asked_by) values (n.id, p_by) on conflict (node_id) do nothing;
  perform pg_notify('pgrab', 'wish');
  n.state := case n.state when 'up' then 'draining' else n.state end; -- as it will be with its next heartbeat
  return n;
end $$;
comment on function pgrab_internal.drain(text, text) is 'pgrab.drain() for a caller.';

create or replace function pgrab_internal.undrain(p_node text, p_by text) returns pgrab.node
language plpgsql as $$
declare
  n pgrab.node := pgrab_internal.node_of(p_node);
begin
  delete from pgrab.drained d where d.node_id = n.id;
  perform pg_notify('pgrab', 'wish');
  n.state := case n.state when 'draining' then 'up' else n.state end;
  return n;
end $$;
comment on function pgrab_internal.undrain(text, text) is 'pgrab.undrain() for a caller.';

-- Claims and starts hold a lock on pgrab.hold until they commit.  The lock below waits for those in progress,
-- and claims that wait for it see that all is paused: after the commit nothing is claimed.  Tasks that were
-- claimed and not started are put back; a start that waits for it finds a new version.
create or replace function pgrab_internal.pause_all(p_by text, out paused boolean, out put_back bigint)
language plpgsql as $$
declare
  v_moves pgrab_internal.move[];
begin
  lock table pgrab.hold in share mode;
  update pgrab.cluster c
  set paused = true, paused_at = clock_timestamp(), paused_by = p_by where not c.paused;
  paused := found;
  select array_agg(pgrab_internal.move_to(t.id, t.version, 'release')) into v_moves
  from (select distinct i.id from pgrab.hold h cross join unnest(h.ids) i(id)) h cross join lateral (
    select x.id, x.version from pgrab.task x where x.id = h.id and x.status = 'claimed'
    for update skip locked) t;
  put_back := cardinality(pgrab_internal.move(v_moves));
end $$;
comment on function pgrab_internal.pause_all(text) is 'pgrab.pause_all() for a caller.';

-- Serves: a node that has registered, before it takes anything.  The first node ever records the place.
create or replace function pgrab_internal.is_copy() returns boolean
language plpgsql as $$
declare
  p constant record := pgrab_internal.here();
begin
  update pgrab.cluster x set system_id = p.system_id, database = p.database where x.system_id is null;
  if not pgrab_tool.copied() then
    return false;
  end if;
  update pgrab.cluster x
  set paused = true, paused_at = clock_timestamp(),
    paused_by = 'a node, because this database is a copy of another one'
  where not x.paused;
  return true;
end $$;
comment on function pgrab_internal.is_copy() is
  'True: this database was copied or restored from another one. Then it pauses all tasks.';

create or replace function pgrab_internal.resume_all() returns boolean
language plpgsql as $$
declare
  p constant record := pgrab_internal.here();
begin
  update pgrab.cluster c
  set paused = false, paused_at = null, paused_by = null, system_id = p.system_id, database = p.database
  where c.paused or (c.system_id, c.database) is distinct from (p.system_id, p.database);
  if not found then
    return false;
  end if;
  perform pgrab_internal.ring('{}');
  return true;
end $$;
comment on function pgrab_internal.resume_all() is 'pgrab.resume_all() for a caller.';
