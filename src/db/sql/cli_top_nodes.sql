-- Serves: pgrab top.  Leaves out nodes that have been down for an hour; pgrab nodes lists them.  $1 limit.
select v.name, v.state, v.busy, n.in_hand, v.heartbeat_age as heartbeat, v.shards, v.won,
  n.runs_succeeded as ok, n.runs_failed as failed, v.strategy, v.warning
from pgrab.nodes v join pgrab.node n on n.name = v.name
where v.state <> 'down' or n.heartbeat_at > statement_timestamp() - interval '1 hour'
order by v.state = 'down', v.name
limit $1::bigint
