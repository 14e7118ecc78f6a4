-- What a dead node held goes back: what it had claimed as it was, what it ran as lost, and nothing of others.
begin;
\ir nodes.inc
select plan(30);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
values ('dead', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 11, 'down', now()),
  ('up', 'h', 2, '0', 'id_hash', 4, '1 s', '10 s', now(), 12, 'up', now());

-- Puts a task where a node would have put it.
create function pg_temp.held(p_id bigint, p_status text, p_node text, p_kind text default 'noop',
  p_max_attempts integer default 3) returns void
language sql as $$
  insert into pgrab.task (id, kind, command, max_attempts) overriding system value
  values (p_id, p_kind, case p_kind when 'sql' then 'select 1' else '' end, p_max_attempts);
  update pgrab.task t
  set status = p_status, version = 7, node_id = n.id, incarnation = n.incarnation, claimed_at = now(),
    attempt = case p_status when 'running' then 1 else 0 end,
    started_at = case p_status when 'running' then now() end
  from pgrab.node n where t.id = p_id and n.name = p_node;
  insert into pgrab.hold select n.incarnation, p_id, array[p_id] from pgrab.node n where n.name = p_node
$$;
create function pg_temp.at(p_id bigint) returns text language sql as $$
  select concat_ws(' ', t.status, t.version, t.attempt, t.incarnation) from pgrab.task t where t.id = p_id
$$;
create function pg_temp.recovered(p_incarnation bigint) returns text language sql as $$
  select r::text from pgrab_internal.recover('up', p_incarnation) r
$$;

-- ---------------------------------------------------------------------------------------- one incarnation
select pg_temp.held(1, 'claimed', 'dead'), pg_temp.held(2, 'running', 'dead'),
  pg_temp.held(3, 'running', 'dead', p_max_attempts => 1), pg_temp.held(4, 'running', 'up');
insert into pgrab.task (id, kind) overriding system value values (5, 'noop');
insert into pgrab.hold values (11, 5, '{5}'); -- it has come back since
select is(pg_temp.recovered(11), '(3,2,1)', 'three are put back, two of them ran, one of these is parked');
select is(pg_temp.at(1), 'scheduled 8 0', 'what was claimed goes back as it was, with a new version');
select is(pg_temp.at(2), 'scheduled 8 1', 'what ran has used up an attempt');
select ok((select t.due_at > now() from pgrab.task t where t.id = 2), 'and waits for the next one');
select is(pg_temp.at(3), 'parked 8 1', 'the last attempt was the last');
select is((select string_agg(r.task_id || ' ' || r.outcome || ' ' || r.node || ': ' || r.error, ', '
    order by r.task_id) from pgrab.run r),
  '2 lost dead: the node that ran it died or lost its lease; seen by up, '
    '3 lost dead: the node that ran it died or lost its lease; seen by up',
  'both runs are on record as lost, of the node that ran them');
select is(pg_temp.at(4), 'running 7 1 12', 'what another one runs is left alone');
select is((select array_agg(h.incarnation) from pgrab.hold h), '{12}', 'and nothing is held by the dead');
select is(pg_temp.recovered(11), '(0,0,0)', 'once');

-- --------------------------------------------------------------------------------------- whoever is dead
select is(pg_temp.recovered(null), '(0,0,0)', 'nobody else is');
update pgrab.beat set state = 'down' where incarnation = 12;
select is(pg_temp.recovered(null), '(1,1,0)', 'who is down is found by what it holds');

-- ------------------------------------------------------------------------------- what cannot be recorded
create function pg_temp.refuse() returns trigger language plpgsql as $$
begin
  raise exception 'not this one';
end $$;
create trigger refuse before insert on pgrab.run for each row when (new.task_id = 6)
  execute function pg_temp.refuse();
select pg_temp.held(6, 'running', 'dead'), pg_temp.held(7, 'running', 'dead');
select is(pg_temp.recovered(11), '(2,2,1)', 'harms no other');
select is(pg_temp.at(7), 'scheduled 8 1', 'which is tried again');
select is((select t.status || ': ' || t.last_error from pgrab.task t where t.id = 6),
  'parked: the node that ran it died or lost its lease; seen by up, and that could not be recorded: '
    'not this one',
  'and is parked, with the reason');

-- ------------------------------------------------------------------------ a statement that has not ended
select pg_temp.held(8, 'running', 'dead', 'sql'), pg_temp.held(9, 'claimed', 'dead', 'sql');
set local application_name = 'pgrab sql 11';
select pg_stat_clear_snapshot();
select is(pg_temp.recovered(11), '(1,0,0)', 'is not lost while its backend is there');
select is(pg_temp.at(8), 'running 7 1 11', 'its task runs');
update pgrab.task set owner = 'somebody' where id = 8;
select is((pgrab_internal.lost_batch(11, 'x')).ids, '{8}',
  'a backend of a role that is not its owner does not count');
update pgrab.task set owner = current_user where id = 8;
set local application_name = 'pgrab';
select pg_stat_clear_snapshot();
select is(pg_temp.recovered(11), '(1,1,0)', 'but when that is gone');
select is(pg_temp.at(8), 'scheduled 8 1', 'it is tried again');

-- ----------------------------------------------------------- a place of a task that was deleted while it ran
insert into pgrab.limit (key, max_running) values ('shared', 1);
update pgrab.limit_use set taken = 1 where key = 'shared';
insert into pgrab.limit_place (task_id, key, version, incarnation, at, started)
values (901, 'shared', 7, 11, now(), true);
create function pg_temp.places() returns bigint language sql as $$
  select pgrab_internal.limit_recover(11);
  select count(*) from pgrab.limit_place $$;
set local application_name = 'pgrab sql 11';
select pg_stat_clear_snapshot();
select is(pg_temp.places(), 1::bigint, 'is not free while the backend of a node is there');
update pgrab.registration set owners = '{somebody}';
savepoint forged;
select is(pg_temp.places(), 0::bigint, 'a role that is no node''s, nor an owner''s, does not keep it');
rollback to forged;
update pgrab.registration set owners = default;
set local application_name = 'pgrab';
select pg_stat_clear_snapshot();
select is(pg_temp.places(), 0::bigint, 'nor anybody who is gone');

-- -------------------------------------------------------------- what is held and was written down nowhere
select pg_temp.held(10, 'claimed', 'dead'), pg_temp.held(11, 'running', 'dead'),
  pg_temp.held(12, 'claimed', 'dead');
delete from pgrab.hold where batch in (10, 11);
select is(pg_temp.recovered(null), '(1,0,0)', 'is found by nobody');
select pg_temp.held(13, 'claimed', 'dead');
select is(pgrab_internal.strays_tick(), false, 'until the server has changed, and all tasks are read');
select is((select array_agg(i order by i) from pgrab.hold h, unnest(h.ids) i where h.batch < 0), '{10,11}',
  'which finds it, and nothing that is written down');
select is(pg_temp.recovered(null), '(3,1,0)', 'then it is put back');
select pg_temp.held(14, 'claimed', 'dead');
delete from pgrab.hold where batch = 14;
select pgrab_internal.strays_tick();
select is((select count(*) from pgrab.hold h), 0::bigint, 'this is done once for a server');
update pgrab.duty set done_at = clock_timestamp() - interval '25 hours' where duty = 'strays';
select pgrab_internal.strays_tick();
select is((select h.ids from pgrab.hold h), '{14}', 'and once a day');
update pgrab.duty set about = 'another server' where duty = 'strays';
insert into pgrab.task (id, kind, run_at) overriding system value
select i, 'noop', '2099-01-01' from generate_series(101, 20100) i;
select is(pgrab_internal.strays_tick(), true, 'many tasks are read a slice at a time');
select is(pgrab_internal.strays_tick(), false, 'to the end');

select * from finish();
rollback;
