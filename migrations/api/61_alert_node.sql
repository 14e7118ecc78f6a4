-- Alerts for nodes: a node that has died or fallen silent is reported once, by a notice in the transaction
-- that marks it down, and once more when its name registers again.  A node that was stopped in good order is
-- not reported.

create or replace function pgrab_internal.node_notice(
  p_event text, p_node_id bigint, p_since timestamptz, p_why text)
returns void
language plpgsql as $$
declare
  n pgrab.node;
begin
  if exists (select from pgrab.alert) then
    select * into n from pgrab.node x where x.id = p_node_id;
    insert into pgrab_internal.notice (event, facts, node_id)
    values (p_event, pgrab_internal.facts(p_event, 'node ' || n.name, 'node-' || n.id, jsonb_build_object(
      'name', n.name, 'node', n.name, 'since', to_json(p_since) #>> '{}', 'error', p_why,
      'text', case p_event
        when 'node_up' then format('node %s on %s is back: it was down since %s', n.name, n.host,
          pgrab_internal.cut(p_since))
        else format('node %s on %s is down: %s', n.name, n.host, p_why) end)), p_node_id);
    perform pg_notify('pgrab', 'alerts');
  end if;
end $$;
comment on function pgrab_internal.node_notice is
  'Writes down an event of a node that operators are to be told of.';

-- Serves: declare_dead.sql, node_leave.sql.
create or replace function pgrab_internal.node_died(p_node_id bigint, p_heard_at timestamptz, p_why text)
returns void
language plpgsql as $$
begin
  insert into pgrab.node_incident (node_id, since) values (p_node_id, p_heard_at) on conflict do nothing;
  if found then
    perform pgrab_internal.node_notice('node_down', p_node_id, p_heard_at, p_why);
  end if;
end $$;
comment on function pgrab_internal.node_died is
  'Reports a node that its keeper or another node has marked down; once, until it is back.';

-- Serves: node_register.sql.  A row that another session has locked stays until the next upkeep.
create or replace function pgrab_internal.node_back(p_node_id bigint) returns void
language plpgsql as $$
declare
  v_since timestamptz;
begin
  delete from pgrab.node_incident i
  where i.node_id in (
    select x.node_id from pgrab.node_incident x where x.node_id = p_node_id for update skip locked)
  returning i.since into v_since;
  if found then
    perform pgrab_internal.node_notice('node_up', p_node_id, v_since, null);
  end if;
end $$;
comment on function pgrab_internal.node_back is
  'Ends the incident of a node that has registered again, if it had died.';

-- Serves: pgrab.upkeep().
create or replace function pgrab_internal.node_incidents_end() returns void
language sql as $$
  select pgrab_internal.node_back(i.node_id)
  from pgrab.node_incident i join pgrab.node n on n.id = i.node_id where n.state <> 'down';
  delete from pgrab.node_incident i
  where not exists (select from pgrab.registration r where r.id = i.node_id)
$$;
comment on function pgrab_internal.node_incidents_end is
  'Ends the incidents of nodes that are back, and deletes those of nodes that have been removed.';
