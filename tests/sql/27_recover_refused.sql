-- A row of which a trigger of its owner's refuses every change harms no other: not what died with it, and not
-- what runs under its limit or is held by its quota.
begin;
\ir nodes.inc
\ir limit.inc
select plan(16);
set local client_min_messages = error;

create function pg_temp.refuse() returns trigger language plpgsql as $$
begin
  if new.name = 'hostile' then
    raise exception using errcode = current_setting('test.state'), message = 'hostile row';
  end if;
  return new;
end $$;
create trigger zz_refuse before update on pgrab.task for each row
  when (current_setting('test.state', true) > '') execute function pg_temp.refuse();

-- ---------------------------------------------------------------------------------------------- the rules
select is(string_agg(s, ' ' order by s) filter (where pgrab_internal.row_fault(s, '')),
  '22012 23505 2F005 P0001 P0002 XX001', 'which errors are about a row')
from unnest('{22012,23505,2F005,P0001,P0002,40001,42501,53100,55P03,57014,XX000,XX001}'::text[]) s;
select ok(not pgrab_internal.row_fault('23514', 'no partition of relation "run" found for row'),
  'not that a day of the history is missing');

-- ------------------------------------------------------------------------------------------ what had died
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
values ('dead', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 11, 'down', now());
create function pg_temp.held(p_status text, p_name text) returns bigint language plpgsql as $$
declare
  v_id bigint;
begin
  insert into pgrab.task (kind, name) values ('noop', p_name) returning id into v_id;
  update pgrab.task t
  set status = p_status, version = 7, node_id = n.id, incarnation = n.incarnation, claimed_at = now(),
    attempt = case p_status when 'running' then 1 else 0 end,
    started_at = case p_status when 'running' then now() end
  from pgrab.node n where t.id = v_id and n.name = 'dead';
  insert into pgrab.hold values (11, v_id, array[v_id]);
  return v_id;
end $$;
create function pg_temp.statuses(p_ids bigint[]) returns text language sql as $$
  select string_agg(t.status, ' ' order by t.id) from pgrab.task t where t.id = any (p_ids)
$$;
select array_agg(pg_temp.held(h.status, h.name)) as dead
from (values ('claimed', 'one'), ('claimed', 'hostile'), ('claimed', 'two'), ('running', 'three'),
  ('running', 'hostile'), ('running', 'four')) h(status, name) \gset
set local test.state = 'P0002';
select is(r::text, '(4,2,0)', 'all others are put back') from pgrab_internal.recover('up', 11) r;
select is(pg_temp.statuses(:'dead'), 'scheduled claimed scheduled scheduled running scheduled',
  'what is refused stays where it is');
select is(r::text, '(0,0,0)', 'and counts as nothing the next time')
from pgrab_internal.recover('up', 11) r;
set local test.state = '';
select is(r::text, '(2,1,0)', 'until it is refused no more') from pgrab_internal.recover('up', 11) r;
select pg_temp.held('claimed', 'hostile');
set local test.state = '53100';
select throws_ok($$select pgrab_internal.recover('up', 11)$$, '53100', null,
  'a fault of the server is one of all');
set local test.state = '';

-- ------------------------------------------------------------------------------------------------ a limit
insert into pgrab.limit (key, max_running) values ('r', 1);
select pg_temp.add('r') as one, pg_temp.add('r') as two, pg_temp.add('r') as three \gset
update pgrab.task set name = 'hostile' where id = :two;
select pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:three);
set local test.state = 'P0001';
select lives_ok(format('select pg_temp.ends(%s, pg_temp.version(%s))', :one, :one),
  'a run ends although the next in line is refused');
select is((select count(*) from pgrab.run r where r.task_id = :one), 1::bigint, 'and is recorded');
select is(pg_temp.due(:three), false, 'a moment later');
select pg_temp.tick();
select is(pg_temp.due(:three), true, 'the one behind it has its place');
select is((select string_agg(p.task_id::text, ' ') from pgrab.limit_place p where p.key = 'r'), :'three',
  'and nobody else');
set local test.state = '';
select pg_temp.starts(:three);
select pg_temp.ends(:three, pg_temp.version(:three));
select is(pg_temp.due(:two), true, 'what is refused no more has kept its turn');
-- ------------------------------------------------------------------------------------------------ a quota
set local test.state = '';
insert into pgrab.quota (owner, max_tasks, when_full) values (current_user, 1, 'hold');
insert into pgrab.task (kind, name) values ('noop', 'hostile') returning id as two \gset
insert into pgrab.task (kind) values ('noop') returning id as three \gset
select is(string_agg((t.due_at is null)::text, ' '), 'true true', 'two are held')
from pgrab.task t where t.id in (:two, :three);
set local test.state = 'P0001';
delete from pgrab.quota;
update pgrab.duty set done_at = 'epoch';
select is(q.looked, 1::bigint, 'one goes') from pgrab_internal.quotas_tick() q;
select is(pg_temp.due(:three), true, 'which is not the one that is refused');

select * from finish();
rollback;
