-- Serves: the page Nodes, the overview.  As pgrab nodes, with the time at which one that is silent or down
-- was last heard of; beaten_to: its claims that were lost, in other words than runs that were.
select v.name, v.state, case when v.state in ('silent', 'down')
    then date_trunc('second', n.heartbeat_at) end as last_heard_of,
  v.strategy, v.busy, v.heartbeat_age, v.shards, v.attempted, v.won, v.lost as beaten_to, v.stolen, v.warning,
  v.overridden,
:nodes_also
order by v.state = 'down', v.name
