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
  -- Who drains a node that has died knows of it, and does not expect it back.
  delete from pgrab.node_incident i where i.node_id = n.id and n.state = 'down';
  perform pg_notify('pgrab', 'wish');
  n.state := case n.state when 'up' then 'draining' else n.state end; -- as it will be with its next heartbeat
  n.draining := true;
  return n;
end $$;
comment on function pgrab_internal.drain is 'pgrab.drain() for a caller.';

create or replace function pgrab_internal.undrain(p_node text) returns pgrab.node
language plpgsql as $$
declare
  n pgrab.node := pgrab_internal.node_of(p_node);
begin
  delete from pgrab.drained d where d.node_id = n.id;
  perform pg_notify('pgrab', 'wish');
  n.state := case n.state when 'draining' then 'up' else n.state end;
  n.draining := false;
  return n;
end $$;
comment on function pgrab_internal.undrain is 'pgrab.undrain() for a caller.';

create or replace function pgrab_internal.node_write() returns trigger
language plpgsql as $$
declare
  c_set constant text[] := '{weight,labels,draining}';
  c_drain constant boolean := coalesce(new.draining, false);
  c_weight constant boolean := new.weight is distinct from old.weight;
  c_labels constant boolean := new.labels is distinct from old.labels;
begin
  if to_jsonb(new) - c_set <> to_jsonb(old) - c_set then
    raise exception using errcode = '22023',
      message = format('only weight, labels and draining of node %L can be changed', old.name),
      hint = 'The node itself writes the rest: change its settings and restart it.';
  elsif not new.weight between 0 and 1e6 then
    raise exception using errcode = '22023',
      message = format('weight of node %L cannot be %s', old.name, new.weight),
      hint = 'Give a number from 0 to 1000000, or null for the node''s own setting.';
  elsif new.labels is not null and not pgrab_internal.labels_fine(new.labels) then
    raise exception using errcode = '22023',
      message = format('labels of node %L are no object of texts: %s', old.name, left(new.labels::text, 200)),
      hint = 'Write them as ''{"zone": "eu", "disk": "ssd"}''. {} is none, null gives back the node''s own.';
  elsif octet_length(new.labels::text) > 4000 then
    raise exception using errcode = '54000',
      message = format('labels of node %L have more than 4000 bytes', old.name);
  end if;
  if c_weight or c_labels then
    insert into pgrab.override as x (node_id, weight, labels)
    values (old.id, case when c_weight then new.weight end, case when c_labels then new.labels end)
    on conflict (node_id) do update
    set weight = case when c_weight then new.weight else x.weight end,
      labels = case when c_labels then new.labels else x.labels end;
    delete from pgrab.override x where x.node_id = old.id and x.weight is null and x.labels is null;
    insert into pgrab.event (what, role, task, detail)
    values ('node', pgrab_internal.caller(), old.name, pgrab_internal.edits(
      jsonb_build_object('weight', old.weight, 'labels', old.labels),
      jsonb_build_object('weight', new.weight, 'labels', new.labels)));
    perform pg_notify('pgrab', 'wish');
  end if;
  if c_drain <> old.draining then
    perform case when c_drain then pgrab_internal.drain(old.name, pgrab_internal.caller())
      else pgrab_internal.undrain(old.name) end;
    insert into pgrab.event (what, role, task)
    values (case when c_drain then 'drain' else 'undrain' end, pgrab_internal.caller(), old.name);
  end if;
  return new;
end $$;
comment on function pgrab_internal.node_write is
  'Trigger: keeps the weight, the labels and the draining that an operator writes to pgrab.node, and '
  'refuses the rest; the node reads it with its next heartbeat.';

-- In the order of their names: the first says who acts.
create trigger node_05_caller instead of update on pgrab.node
  for each row execute function pgrab_tool.note_caller();
create trigger node_10_write instead of update on pgrab.node
  for each row execute function pgrab_internal.node_write();

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
  select coalesce(array_agg(pgrab_internal.move_to(t.id, t.version, 'release')), '{}') into v_moves
  from (select distinct i.id from pgrab.hold h cross join unnest(h.ids) i(id)) h cross join lateral (
    select x.id, x.version from pgrab.task x where x.id = h.id and x.status = 'claimed'
    for update skip locked) t;
  begin
    put_back := cardinality(pgrab_internal.move(v_moves));
  exception when others then
    if not pgrab_internal.row_fault(sqlstate, sqlerrm) then
      raise;
    end if;
    put_back := pgrab_internal.move_each(v_moves);
  end;
end $$;
comment on function pgrab_internal.pause_all is 'pgrab.pause_all() for a caller.';

-- Serves: a node that has registered, before it takes anything.  The first node ever records the place.
-- Where nodes have beaten for long and none has recorded it, the rows of another database were restored into
-- tables made here.  (A node that fails before this is one beat more each time it tries again.)
create or replace function pgrab_internal.is_copy() returns boolean
language plpgsql as $$
declare
  p constant record := pgrab_internal.here();
begin
  update pgrab.cluster x
  set system_id = case when o.other then 0 else p.system_id end, database = p.database
  from (select exists (select from pgrab.beat b where b.beat > 1000) as other) o
  where x.system_id is null;
  if not pgrab_tool.copied() then
    return false;
  end if;
  update pgrab.cluster x
  set paused = true, paused_at = clock_timestamp(),
    paused_by = 'a node, because this database is a copy of another one'
  where not x.paused;
  return true;
end $$;
comment on function pgrab_internal.is_copy is
  'True: this database was copied or restored from another one. Then it pauses all tasks.';

create or replace function pgrab_internal.resume_all(p_adopt boolean) returns boolean
language plpgsql as $$
declare
  p constant record := pgrab_internal.here();
begin
  if not p_adopt and pgrab_tool.copied() then
    raise exception using errcode = '55000', message = 'this database is a copy of another one',
      hint = 'Its tasks run there, too, if that one is up. If they may run here: select pgrab.adopt().';
  end if;
  update pgrab.cluster c
  set paused = false, paused_at = null, paused_by = null, system_id = p.system_id, database = p.database
  where c.paused or (c.system_id, c.database) is distinct from (p.system_id, p.database);
  if not found then
    return false;
  end if;
  perform pgrab_internal.ring('{}');
  return true;
end $$;
comment on function pgrab_internal.resume_all is 'pgrab.resume_all() and pgrab.adopt() for a caller.';
