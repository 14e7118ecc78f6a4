-- Batches: members, their figures, how a batch ends, and what people do with it.
begin;
select plan(85);
set local timezone = 'UTC';
alter table pgrab.task alter id restart with 1000;
\ir chain.inc
create function pg_temp.figures(p_id bigint) returns text language sql as $$
  select format('%s members: %s waiting, %s running, %s parked, %s succeeded, %s gone', f.members, f.waiting,
    f.running, f.parked, f.succeeded, f.gone)
  from pgrab_internal.batch_figures(p_id) f
$$;
create function pg_temp.shown(p_id bigint) returns text language sql as $$
  select format('%s %s: %s %s %s %s %s%%', b.status, b.members, b.waiting, b.running, b.succeeded,
    b.failed, b.percent)
  from pgrab.batches b where b.id = p_id
$$;
-- All sealed batches are looked at.
create function pg_temp.tick() returns void language sql as $$
  update pgrab.batch set look_at = now() where look_at is not null;
  select pgrab_internal.batches_tick();
$$;
create function pg_temp.status(p_id bigint) returns text language sql as $$
  select coalesce((select t.status from pgrab.task t where t.id = p_id),
    (select 'ended ' || r.ended || coalesce(': ' || r.error, '') 
      from pgrab.run r where r.task_id = p_id and r.ended is not null))
$$;
-- Runs of these tasks begin, and end so.
create function pg_temp.runs(p_ids bigint[], p_outcome text) returns void language plpgsql as $$
begin
  update pgrab.task set status = 'running', node_id = 1, incarnation = 1, claimed_at = now(),
    started_at = now(), version = version + 1, attempt = max_attempts where id = any (p_ids);
  perform pgrab_internal.finish((array_agg(t.id order by t.id), array_agg(t.version order by t.id),
    array_agg(t.incarnation), array_agg(0), array_agg(0), array_agg(p_outcome), array_agg(null::int),
    array_agg(null::text), array_agg(false), array_agg('no'::text), null,
    null)::pgrab_internal.outcomes, 1, 'n')
  from pgrab.task t where t.id = any (p_ids);
end $$;
create function pg_temp.hint(p_statement text) returns text language plpgsql as $$
declare
  v_hint text;
begin
  execute p_statement;
  return 'none';
exception when others then
  get stacked diagnostics v_hint = pg_exception_hint;
  return v_hint;
end $$;

-- --------------------------------------------------------------------------------------------------- members
insert into pgrab.task (id, kind) overriding system value values (1, 'batch');
select is(pg_temp.status(1), 'waiting', 'a batch waits');
select is((select due_at from pgrab.task where id = 1), null, 'and no node looks at it');
select is((select waits_for from pgrab.waits where id = 1), '(members)', 'pgrab.waits has it');
select is_empty('select from pgrab.forecast() where task_id = 1', 'but it is no coming fire');
insert into pgrab.task (id, kind, batch) overriding system value
  select i, 'noop', 1 from generate_series(11, 15) i;
select is(pg_temp.figures(1), '5 members: 5 waiting, 0 running, 0 parked, 0 succeeded, 0 gone', 'members');
insert into pgrab.task (id, kind, batch) overriding system value values (16, 'noop', 1);
select is(pg_temp.shown(1), 'open 6: 6 0 0 0 0%', 'more members');
select pg_temp.tick();
select is(pg_temp.status(1), 'waiting', 'an open batch does not end');
select throws_ok($$insert into pgrab.task (kind, batch) values ('noop', 99)$$, '22023', null,
  'no such batch');
select throws_ok($$insert into pgrab.task (kind, batch) values ('noop', 11)$$, '22023', null,
  'that is no batch');
select throws_ok($$insert into pgrab.task (kind, batch, schedule) values ('noop', 1, '@daily')$$,
  '22023', null,
  'a schedule would keep it from ending');
select throws_ok($$update pgrab.task set schedule = '@daily' where id = 11$$, '22023', null,
  'nor can it get one');
select throws_ok($$update pgrab.task set batch = null where id = 11$$, '22023', null, 'a member stays one');
select throws_ok($$update pgrab.task set kind = 'batch' where id = 11$$, '22023', null,
  'no task becomes a batch');
select throws_ok($$insert into pgrab.task (kind, schedule) values ('batch', '@daily')$$, '22023', null,
  'a batch has no schedule');
insert into pgrab.task (id, kind, schedule) overriding system value values (90, 'noop', '@daily');
select throws_ok($$insert into pgrab.task (kind, parent_id) values ('batch', 90)$$, '22023', null,
  'or a place in a chain that runs again');
select throws_ok($$insert into pgrab.task (kind, wait_for) values ('batch', 'go')$$, '22023', null,
  'and waits for nothing else');
select throws_ok($$insert into pgrab.task (kind, command) values ('batch', 'x')$$, '22023', null,
  'or runs anything');
select throws_ok($$insert into pgrab.task (kind, args) values ('batch', '{"max_running": 0}')$$,
  '22023', null,
  'max_running lets something run');
select throws_ok($$insert into pgrab.task (kind, args) values ('batch', '{"parked": "what"}')$$,
  '22023', null,
  'parked is one of two words');

select throws_ok($$insert into pgrab.task (kind, batch, parent_id) values ('noop', 1, 1)$$, '22023', null,
  'a member does not wait for its batch');
select throws_ok(
  $$insert into pgrab.task (id, kind, batch) overriding system value values (50, 'batch', 50)$$, '22023',
  null, 'which is not its own member');
select throws_ok($$insert into pgrab.task (kind, args) values ('batch', '{"max_running": 1.5}')$$, '22023',
  null, 'max_running is a whole number');

-- ------------------------------------------------------------------------------------------------------- end
select pg_temp.runs('{11,12,13}', 'succeeded');
select is(pg_temp.shown(1), 'open 6: 3 0 3 0 50%', 'successes are what is left over');
select is((select definition from pgrab.run where task_id = 11), '{"batch": 1}',
  'the history knows the batch');
select is((select count(*) from pgrab.seal(1)), 1::bigint, 'sealed');
select is((select count(*) from pgrab.seal(1)), 0::bigint, 'twice changes nothing');
select throws_ok($$insert into pgrab.task (kind, batch) values ('noop', 1)$$, '22023', null,
  'no more members');
select throws_ok($$select pgrab.seal(14)$$, '55000', null, 'only a batch is sealed');
select pg_temp.tick();
select is(pg_temp.status(1), 'waiting', 'members are left');
select matches((select detail from pgrab.explain(1) where gate = 'members'),
  'Sealed, 3 of 6 members have not ended', 'explain');
select is((select verdict from pgrab.explain(1) where gate = 'members'), 'waits', 'it waits for them');
select pg_temp.runs('{14,15}', 'succeeded');
select pg_temp.runs('{16}', 'failed');
select is(pg_temp.status(16), 'parked', 'a member is parked');
select pg_temp.tick();
select is(pg_temp.status(1), 'waiting', 'which a person decides about');
select is((select verdict from pgrab.explain(1) where gate = 'members'), 'blocked', 'explain says so');
select throws_ok($$select pgrab.run_now(1)$$, '55000', null, 'a batch is not run');
select is((select array_agg(id) from pgrab.retry(1)), '{16}', 'retry tries what is parked');
select throws_ok($$select pgrab.retry(1)$$, '55000', null, 'and refuses when nothing is');
select pg_temp.runs('{16}', 'succeeded');
select pg_temp.tick();
select is(pg_temp.status(1), 'ended done', 'all have succeeded');
select is((select (outcome, output)::text from pgrab.run where task_id = 1),
  '(succeeded,"6 members, 6 succeeded")', 'the history');
select pgrab_internal.batches_leave();
select is_empty('select from pgrab.batch union all select from pgrab.batch_count', 'nothing is left of it');

-- ----------------------------------------------------------------------------------- failures, and callbacks
insert into pgrab.task (id, kind, args) overriding system value values (2, 'batch', '{"parked": "failed"}');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values
  (21, 'noop', 2, 'success'), (22, 'noop', 2, 'failure');
insert into pgrab.task (id, kind, batch) overriding system value
  values (23, 'noop', 2), (24, 'noop', 2), (25, 'noop', 2);
select pgrab.seal(2);
select pg_temp.runs('{23}', 'failed');
select pg_temp.tick();
select is(pg_temp.status(2), 'waiting', 'one that failed does not end it early');
select pg_temp.runs('{24}', 'succeeded');
select pgrab.cancel(25);
select is(pg_temp.figures(2), '3 members: 0 waiting, 0 running, 1 parked, 1 succeeded, 1 gone',
  'one was given up');
select pg_temp.tick();
select is(pg_temp.status(2), 'parked', 'the batch has failed');
select is((select last_error from pgrab.task where id = 2), '2 of 3 members have not succeeded',
  'and says why');
select is(pg_temp.status(22), 'scheduled', 'the callback for failures starts');
select is(pg_temp.status(21), 'skipped', 'the other does not');
select is((select array_agg(id order by id) from pgrab.retry(2)), '{2,23}', 'both are tried again');
select is(pg_temp.status(2), 'waiting', 'the batch waits again');
select is((select waits_for from pgrab.waits where id = 2), '(members)', 'as everybody sees');
select is(pg_temp.status(23), 'scheduled', 'for its member');
select pg_temp.runs('{23}', 'succeeded');
select pg_temp.tick();
select is((select last_error from pgrab.task where id = 2), '1 of 3 members have not succeeded',
  'what was given up stays');

-- --------------------------------------------------------------------------------------- batches in batches
insert into pgrab.task (id, kind) overriding system value values (3, 'batch');
insert into pgrab.task (id, kind, batch) overriding system value values (4, 'batch', 3), (31, 'noop', 3);
insert into pgrab.task (id, kind, batch) overriding system value values (41, 'noop', 4);
select pgrab.seal(array[3, 4]);
select pg_temp.runs('{31}', 'succeeded');
select pg_temp.tick();
select is(pg_temp.status(3), 'waiting', 'the inner batch is a member');
select is((select array_agg(id order by id) from pgrab.pause(3)), '{3,4,41}', 'pause goes down');
select is((select array_agg(id order by id) from pgrab.resume(3)), '{3,4,41}', 'resume, too');
select pg_temp.runs('{41}', 'succeeded');
select pg_temp.tick();
select pg_temp.tick();
select is(pg_temp.status(3), 'ended done', 'both have ended');

-- ------------------------------------------------------------------------------------- bounds, and giving up
insert into pgrab.task (id, kind, args) overriding system value values (5, 'batch', '{"max_running": 2}');
insert into pgrab.task (id, kind, batch) overriding system value values (51, 'noop', 5), (52, 'noop', 5);
select is((select array_agg(distinct limit_key) from pgrab.task where batch = 5), '{batch:5}',
  'members are bounded');
select is((select max_running from pgrab.limit where key = 'batch:5'), 2, 'by a limit');
insert into pgrab.limit (key, max_running) values ('other', 1);
select throws_ok($$insert into pgrab.task (kind, batch, limit_key) values ('noop', 5, 'other')$$,
  '22023', null,
  'which is the only one');
select throws_ok($$delete from pgrab.task where id = 5$$, '55000', null,
  'a batch with members is not deleted');
delete from pgrab.task where id = 52;
select is(pg_temp.figures(5), '2 members: 1 waiting, 0 running, 0 parked, 0 succeeded, 1 gone',
  'a member can be');
select is((select array_agg(id order by id) from pgrab.cancel(5)), '{5,51}', 'cancel gives up all');
select is(pg_temp.status(5), 'ended cancelled: cancelled by ' || current_user, 'the batch');
select is(pg_temp.status(51), 'ended cancelled: cancelled by ' || current_user, 'and its member');

-- --------------------------------------------------------------------------------- what could never end
select throws_like($$insert into pgrab.task (kind, batch) values ('noop', 5)$$, 'task batch cannot be%',
  'a batch that has ended gets no member');
select is(pg_temp.hint($$insert into pgrab.task (kind, batch) values ('noop', 5)$$),
  'It has ended, so no member can be added any more: make another one.', 'which is said');
select matches(pg_temp.hint($$insert into pgrab.task (kind, batch) values ('noop', 4711)$$),
  '^There is no such batch', 'it is not the same as one that there never was');
insert into pgrab.task (id, kind, batch, args) overriding system value
values (60, 'batch', null, '{"max_running": 2}'), (61, 'batch', 60, '{}'), (62, 'noop', 60, '{}');
insert into pgrab.task (id, kind, parent_id) overriding system value values (63, 'noop', 60),
  (64, 'noop', 63);
select throws_like($$insert into pgrab.task (kind, batch, parent_id) values ('noop', 60, 64)$$,
  'task batch cannot be%', 'no member waits for its batch, however far up');
select throws_like($$insert into pgrab.task (kind, batch, parent_id) values ('noop', 61, 64)$$,
  'task batch cannot be%', 'nor for one around it');
select throws_like($$insert into pgrab.edge (parent_id, child_id) values (64, 62)$$,
  'task 64 cannot be a parent of task 62: a member of batch 60 would wait%', 'nor by a later edge');
select lives_ok($$insert into pgrab.task (kind, batch, parent_id) values ('noop', 60, 62)$$,
  'a member may wait for another');
update pgrab.task set args = '{"max_running": 7}' where id = 60;
select is((select max_running from pgrab.limit where key = 'batch:60'), 7, 'max_running can be edited');
select throws_like($$update pgrab.task set args = '{}' where id = 60$$, 'task args cannot be%',
  'but not taken away');
insert into pgrab.task (id, kind, run_at) overriding system value values (70, 'noop', '2100-01-01');
insert into pgrab.task (id, kind, parent_id) overriding system value values (71, 'batch', 70);
select throws_like($$update pgrab.task set schedule = '@daily' where id = 70$$, 'task schedule cannot be%',
  'no schedule comes to a chain with a batch');
insert into pgrab.task (id, kind, schedule) overriding system value values (72, 'noop', '@daily');
insert into pgrab.task (id, kind) overriding system value values (73, 'batch');
select throws_like($$insert into pgrab.edge (parent_id, child_id) values (72, 73)$$,
  'task 72 cannot be a parent of task 73: a batch runs once%', 'nor a batch to one with a schedule');
delete from pgrab.task where id >= 60;

-- the key of a batch is its own, before there is one, too: whoever had it would hold up the INSERT
insert into pgrab.limit (key, max_running) values ('api', 1);
insert into pgrab.task (id, kind) overriding system value values (80, 'batch');
select throws_like(format('insert into pgrab.limit (key, max_running) values (%L, 1)', k),
  'limit key ''batch:%'' is for a batch with max_running', 'reserved')
from unnest('{batch:80,batch:81,batch:99999999999999999999}'::text[]) k;
select throws_like($$update pgrab.limit set key = 'batch:80' where key = 'api'$$, 'limit key%', 'also later');
select lives_ok($$insert into pgrab.task (id, kind, batch, limit_key) overriding system value
  values (81, 'noop', 80, 'api'), (82, 'noop', 80, null)$$,
  'members of a batch without max_running are as they are');
select results_eq('select limit_key from pgrab.task where id in (81, 82) order by id', array['api', null],
  'under the limit that they name');
insert into pgrab.task (id, kind, args) overriding system value values (83, 'batch', '{"max_running": 3}');
select throws_like($$insert into pgrab.task (kind, batch, limit_key) values ('noop', 83, 'api')$$,
  'task limit_key cannot be%', 'with max_running they have its limit');
delete from pgrab.task where id >= 80;

insert into pgrab.task (id, kind, args) overriding system value values (90, 'batch', '{"max_running": 5.0}');
select is((select l.max_running from pgrab.limit l where l.key = 'batch:90'), 5, '5.0 is a whole number');
select lives_ok($$update pgrab.task set args = '{"max_running": 6.0}' where id = 90$$,
  '6.0 is a whole number');
select is((select l.max_running from pgrab.limit l where l.key = 'batch:90'), 6, 'and is taken');
delete from pgrab.task where id = 90;

select pgrab_internal.batches_leave();
select is_empty($$select from pgrab.limit where key like 'batch:%'$$, 'the limit goes, too');
select finish();
rollback;
