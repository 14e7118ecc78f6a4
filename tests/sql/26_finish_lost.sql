-- A run that was lost because of another costs its task no attempt.
begin;
\ir nodes.inc
select plan(3);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at, kinds) values
  ('n1', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 4, 'up', now(), '{noop}');
insert into pgrab.task (kind, name, max_attempts, delivery) values
  ('noop', 'innocent', 1, 'at_least_once'), ('noop', 'unlucky', 1, 'at_least_once'),
  ('noop', 'never twice', 1, 'at_most_once');
update pgrab.task t set status = 'running', version = 1000, node_id = n.id, incarnation = 4, attempt = 1,
  started_at = now() from pgrab.node n;

select is(count(*), 3::bigint, 'three lost runs')
from pgrab.task t cross join lateral pgrab_internal.finish((array[t.id], array[1000], array[4], array[2000],
    array[1000], array['lost'], array[null]::int[], array[''], array[false], array['why'],
    case when t.name <> 'unlucky' then array[1] end, null)::pgrab_internal.outcomes, t.node_id, 'n1') f;
select results_eq('select name, status, attempt, due_at <= clock_timestamp() from pgrab.task order by 1',
  $$values ('innocent', 'scheduled', 0, true), ('never twice', 'parked', 1, null),
    ('unlucky', 'parked', 1, null)$$,
  'at once, and as often as before, unless once is the most');
select results_eq('select name, attempt, outcome from pgrab.run order by 1',
  $$values ('innocent', 1, 'lost'), ('never twice', 1, 'lost'), ('unlucky', 1, 'lost')$$,
  'the history has each');

select * from finish();
rollback;
