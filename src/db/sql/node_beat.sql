-- One heartbeat: HOT, no index.  0 rows: somebody declared us dead, or our name has a new owner; we are
-- fenced. Answers what people want of us: to drain, which of our runs to stop (task and version, by
-- spaces), and whether to show an output; and, when asked, everybody who is not down (as node_list.sql), so
-- that an idle node needs no other statement.
-- Serves: heartbeat.
-- $1 node, $2 incarnation, $3 state, $4 bell, $5 in hand, $6 running, $7.. what to add: attempted, won, lost,
-- stolen, started, succeeded, failed, stale, fences, recovered; $17 the others, too?
with beat as (
  update pgrab.node n
  set beat = n.beat + 1, heartbeat_at = clock_timestamp(),
    state = case when exists (select from pgrab.drained d where d.node_id = $1::bigint) then 'draining'
    else $3 end, bell = $4::boolean, in_hand = $5::int, running = $6::int,
    claims_attempted = n.claims_attempted + $7::bigint, claims_won = n.claims_won + $8::bigint,
    claims_lost = n.claims_lost + $9::bigint, claims_stolen = n.claims_stolen + $10::bigint,
    runs_started = n.runs_started + $11::bigint, runs_succeeded = n.runs_succeeded + $12::bigint,
    runs_failed = n.runs_failed + $13::bigint, stale_finishes = n.stale_finishes + $14::bigint,
    fences = n.fences + $15::bigint, recovered = n.recovered + $16::bigint
  where n.id = $1::bigint and n.incarnation = $2::bigint and n.state <> 'down'
  returning exists (select from pgrab.drained d where d.node_id = $1::bigint) as drain,
    (select string_agg(c.task_id || ' ' || c.version, ' ') from pgrab.cancel_request c
     where c.incarnation = $2::bigint) as stops,
    exists (select from pgrab.live_request r where r.incarnation = $2::bigint) as outputs)
select (date_part('epoch', clock_timestamp()) * 1e6)::bigint as db_now, l.*, b.drain, b.stops,
  b.outputs
from beat b left join lateral (
  select :node_columns from pgrab.node n where n.state <> 'down') l on $17::boolean
order by l.id
