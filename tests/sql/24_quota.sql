-- Quotas: what is refused, what is held, who stands in which line.  With real nodes: test_quotas.py.
begin;
\ir limit.inc
select plan(78);
set local timezone = 'UTC';

create role pgrab_t_a;
create role pgrab_t_b;
grant pgrab_t_a, pgrab_t_b to current_user;
create function pg_temp.insert(p_owner text, p_n integer, p_more jsonb default '{}') returns bigint[]
language plpgsql as $$
declare
  v_ids bigint[];
begin
  execute format('set local role %I', p_owner);
  with made as (
    insert into pgrab.task (kind, run_at, share_key, limit_key, paused, command, schedule)
    select coalesce(p_more ->> 'kind', 'noop'), coalesce((p_more ->> 'run_at')::timestamptz, now()),
      p_more ->> 'share_key', p_more ->> 'limit_key', coalesce((p_more ->> 'paused')::boolean, false),
      coalesce(p_more ->> 'command', ''), p_more ->> 'schedule'
    from generate_series(1, p_n) returning id)
  select array_agg(id order by id) into v_ids from made;
  reset role;
  return v_ids;
end $$;
grant usage on schema pgrab, pgrab_internal, pgrab_tool to pgrab_t_a, pgrab_t_b;
grant insert, select on pgrab.task to pgrab_t_a, pgrab_t_b;
grant execute on all functions in schema pgrab_internal, pgrab_tool, pgrab to pgrab_t_a, pgrab_t_b;
create function pg_temp.error(p_sql text) returns text language plpgsql as $$
declare
  v_message text;
  v_hint text;
begin
  execute p_sql;
  return null;
exception when others then
  get stacked diagnostics v_message = message_text, v_hint = pg_exception_hint;
  return sqlstate || ' ' || v_message || ' HINT ' || coalesce(v_hint, '');
end $$;
create function pg_temp.line(p_id bigint) returns text language sql as $$
  select coalesce(t.line, 'none') from pgrab.task t where t.id = p_id $$;
create function pg_temp.gate(p_id bigint, p_gate text) returns text language sql as $$
  select string_agg(verdict || ': ' || detail, ' | ') from pgrab.explain(p_id) where gate = p_gate $$;
create function pg_temp.quotas_tick() returns bigint language sql as $$
  update pgrab.duty set done_at = 'epoch' where duty = 'quotas';
  select looked from pgrab_internal.quotas_tick() $$;
create function pg_temp.use(p_owner text) returns setof pgrab.quotas language sql as $$
  select * from pgrab.quotas where owner = p_owner $$;

-- ------------------------------------------------------------------------------------------- what is a quota
select matches(pg_temp.error($$insert into pgrab.quota (owner, max_tasks) values ('nobody_at_all', 1)$$),
  '42704 there is no role .nobody_at_all.', 'a quota is about a role that exists');
select matches(pg_temp.error($$insert into pgrab.quota (owner) values ('pgrab_t_a')$$), 'quota_some_check',
  'and says something');
select matches(pg_temp.error($$insert into pgrab.quota (owner, share_key, max_tasks) values ('pgrab_t_a', 'x',
  1)$$), 'quota_whose_check', 'about one or the other');
select matches(pg_temp.error($$insert into pgrab.limit (key, max_running) values ('quota:["a"]', 1)$$),
  'limit_key_check', 'no limit is called like what stands for a quota');
select matches(pg_temp.error(
  $$select pg_temp.insert('pgrab_t_a', 1, '{"limit_key": "quota:[\"pgrab_t_a\"]"}')$$),
  'There is no such limit', 'and no task can name one as its limit');

-- ---------------------------------------------------------------------------------------- how many there are
insert into pgrab.quota (owner, max_tasks) values ('pgrab_t_a', 3);
select is(cardinality(pg_temp.insert('pgrab_t_a', 2)), 2, 'as long as there is room nothing happens');
select pg_temp.insert('pgrab_t_a', 1, '{"paused": true}');
select matches(pg_temp.error($$select pg_temp.insert('pgrab_t_a', 1)$$),
  '^54000 the quota of pgrab_t_a is full: max_tasks 3 HINT Wait until', 'a fourth is refused, with a hint');
select is((select tasks from pg_temp.use('pgrab_t_a')), 3::bigint, 'what waits, or is paused, counts');
select is(cardinality(pg_temp.insert('pgrab_t_b', 20)), 20, 'others have no part in it');
delete from pgrab.task where owner = 'pgrab_t_a' and paused;
select matches(pg_temp.error($$select pg_temp.insert('pgrab_t_a', 2)$$), 'is full',
  'one INSERT of two is refused as a whole when there is room for one');
select is(cardinality(pg_temp.insert('pgrab_t_a', 1)), 1, 'what has ended has made room');
delete from pgrab.task;
update pgrab.quota set max_tasks = 5000;
select is(cardinality(pg_temp.insert('pgrab_t_a', 4000)), 4000, 'a large number is estimated');
select ok((select tasks between 3200 and 4800 from pg_temp.use('pgrab_t_a')), 'within a few percent');
select matches(pg_temp.error($$select pg_temp.insert('pgrab_t_a', 2000)$$), 'is full', 'and is a bound');
delete from pgrab.task;

-- ---------------------------------------------------------------------------------------- how fast they come
update pgrab.quota set max_tasks = null, inserts_per_minute = 10;
select pg_temp.insert('pgrab_t_a', 6);
delete from pgrab.task;
select matches(pg_temp.error($$select pg_temp.insert('pgrab_t_a', 5)$$), 'full: inserts_per_minute 10',
  'what has ended counts in its minute');
select is(cardinality(pg_temp.insert('pgrab_t_a', 4)), 4, 'so many may come');
select is((select inserted from pg_temp.use('pgrab_t_a')), 10::bigint, 'and are shown');
update pgrab_internal.quota_insert set at = at - interval '1 minute';
select is(cardinality(pg_temp.insert('pgrab_t_a', 10)), 10, 'a minute later as many more');
select is((select count(*) from pgrab_internal.quota_insert), 1::bigint, 'and nothing older is kept');
delete from pgrab.task;
delete from pgrab_internal.quota_insert;
update pgrab.quota set inserts_per_minute = 40000;
select setseed(0.5); -- one in fifty times there would be more, or fewer
select count(pg_temp.insert('pgrab_t_a', 5)) from generate_series(1, 400);
select ok((select inserted between 1000 and 3000 from pg_temp.use('pgrab_t_a')),
  'under a large quota few INSERTs write a row, which stands for many');
select ok((select count(*) < 60 from pgrab_internal.quota_insert), 'of 400 one in twenty');
delete from pgrab.task;

-- ---------------------------------------------------------------------------------------- how large they are
update pgrab.quota set inserts_per_minute = null, max_bytes = 100, max_lanes = 2;
select matches(pg_temp.error(format($$select pg_temp.insert('pgrab_t_a', 1, '{"kind": "sql", "command":
  "select %s"}')$$, repeat('1', 100))), '^54000 the quota of pgrab_t_a permits 100 bytes .* have 109',
  'what is too long is refused');
select (pg_temp.insert('pgrab_t_a', 1, '{"kind": "sql", "command": "select 1"}'))[1] as id \gset
select matches(pg_temp.error(format($$update pgrab.task set command = 'select %s' where id = %s$$,
  repeat('1', 100), :id)), 'permits 100 bytes', 'also when it is edited');
select pg_temp.insert('pgrab_t_a', 1);
select matches(pg_temp.error(
  $$select pg_temp.insert('pgrab_t_a', 1, '{"kind": "shell", "command": "true"}')$$), 'more than 2 lanes',
  'and what stands in too many lanes');
select is((select lanes from pg_temp.use('pgrab_t_a')), 2::bigint, 'these are shown');
delete from pgrab.task;

-- ---------------------------------------------------------------------------------------------- what is held
update pgrab.quota set max_bytes = null, max_lanes = null, max_tasks = 2, when_full = 'hold';
select i[1] as one, i[2] as two, i[3] as three, i[4] as four, i[5] as five
from (select pg_temp.insert('pgrab_t_a', 5, '{"run_at": "2026-01-01"}') as i) x \gset
select is((select array_agg(t.due_at is not null order by t.id) from pgrab.task t), '{t,t,f,f,f}'::boolean[],
  'what is too much waits in line');
select is(pg_temp.line(:three), 'quota:held:["pgrab_t_a"]', 'in that of the quota');
select matches(pg_temp.gate(:three, 'quota'),
  'waits: quota of pgrab_t_a holds it: at most 2 due or running, since 2026-01-01 .*; 3 wait there',
  'explain says so');
select is(pgrab.why(:three), 'quota of pgrab_t_a holds it', 'and so do lists');
select is((select count(*) from pgrab_tool.in_line()), 3::bigint, 'they are late');
select is((select held from pg_temp.use('pgrab_t_a')), 3::bigint, 'the view counts them');
update pgrab.task set priority = -1, name = 'x' where id = :three;
select pgrab.pause(:four);
select pgrab.resume(:four);
select pgrab.run_now(:five);
select is((select array_agg(pg_temp.due(i)) from unnest(array[:three, :four, :five]::bigint[]) i), '{f,f,f}',
  'no edit, pause or command lets them go');
select is(pg_temp.quotas_tick(), 0::bigint, 'nor does the clock');
update pgrab.task set priority = 0 where id = :three;
delete from pgrab.task where id = :one;
select is(pg_temp.due((pg_temp.insert('pgrab_t_a', 1))[1]), false, 'nobody goes before them');
select is(pg_temp.quotas_tick(), 1::bigint, 'when there is room, as many go');
select is(pg_temp.due(:three), true, 'the first first');
select is((select next_us from pgrab_internal.quotas_tick()), 1000000::bigint, 'the others a second later');
update pgrab.quota set when_full = 'refuse';
select is(pg_temp.quotas_tick(), 3::bigint, 'if nothing is to be held, all go');
select is((select next_us from pgrab_internal.quotas_tick()), null, 'and nobody looks any more');
update pgrab.quota set when_full = 'hold';
select pg_temp.insert('pgrab_t_a', 2);
delete from pgrab.quota;
select pg_temp.quotas_tick();
select is((select count(*) from pgrab.task where due_at is null), 0::bigint,
  'a quota that is gone holds nothing');
delete from pgrab.task;
delete from pgrab_internal.quota_insert;
insert into pgrab.quota (owner, inserts_per_minute, when_full) values ('pgrab_t_a', 3, 'hold');
select pg_temp.insert('pgrab_t_a', 5);
select is((select held from pg_temp.use('pgrab_t_a')), 2::bigint, 'the same under inserts_per_minute');
select pg_temp.quotas_tick();
select is((select held from pg_temp.use('pgrab_t_a')), 2::bigint, 'within a minute none may go');
update pgrab_internal.quota_insert set at = at - interval '1 minute';
select pg_temp.quotas_tick();
select is((select (held, inserted) from pg_temp.use('pgrab_t_a')), row(0::bigint, 2::bigint),
  'then they go, and count');
delete from pgrab.task;
delete from pgrab.quota;

insert into pgrab.quota (owner, max_tasks, max_running, when_full) values ('pgrab_t_a', 1, 9, 'hold');
select i[2] as two from (select pg_temp.insert('pgrab_t_a', 3) as i) x \gset
update pgrab.quota set max_tasks = null;
select matches(pg_temp.gate(:two, 'quota'), 'holds it: until the next second', 'a bound that is gone');
select is(pg_temp.quotas_tick(), 2::bigint, 'holds nothing');
delete from pgrab.task;
delete from pgrab.quota;

-- What the quota of its owner holds counts for that of its share_key when it goes on.
delete from pgrab_internal.quota_insert;
insert into pgrab.quota (owner, inserts_per_minute, when_full) values ('pgrab_t_a', 3, 'hold');
insert into pgrab.quota (share_key, inserts_per_minute, when_full) values ('e *', 3, 'hold');
select pg_temp.insert('pgrab_t_a', 10, '{"share_key": "e 1"}');
select is((select array_agg(i.n order by i.key) from (
    select q.key, sum(q.n)::int as n from pgrab_internal.quota_insert q group by 1) i), '{3,3}'::int[],
  'no more counts than has gone on');
update pgrab_internal.quota_insert set at = at - interval '1 minute';
select pg_temp.quotas_tick();
select is((select count(*) from pgrab.task where due_at is not null), 6::bigint,
  'so a minute later as many go on again');
delete from pgrab.task;
delete from pgrab.quota;
insert into pgrab.quota (owner, max_tasks, when_full) values ('pgrab_t_a', 1, 'hold');
insert into pgrab.quota (share_key, max_tasks) values ('c *', 2);
select pg_temp.insert('pgrab_t_a', 2, '{"share_key": "c 1"}') from generate_series(1, 3);
update pgrab.quota set max_tasks = 9 where owner is not null;
select pg_temp.quotas_tick();
select is((select count(*) from pgrab.task where due_at is not null), 2::bigint,
  'nor does it get round one that refuses');
delete from pgrab.task where due_at is not null;
select pg_temp.quotas_tick();
select is((select count(*) from pgrab.task where due_at is not null), 2::bigint, 'the others follow');
delete from pgrab.task;
delete from pgrab.quota;
delete from pgrab_internal.quota_insert;

-- -------------------------------------------------------------------------------------- how many run at once
insert into pgrab.quota (owner, max_running) values ('pgrab_t_a', 1);
select i[1] as one, i[2] as two from (select pg_temp.insert('pgrab_t_a', 2) as i) x \gset
select (pg_temp.insert('pgrab_t_b', 1))[1] as other \gset
select is(array[pg_temp.starts(:one), pg_temp.starts(:two), pg_temp.starts(:other)], '{t,f,t}'::boolean[],
  'one runs, and whoever has no quota');
select (pg_temp.insert('pgrab_t_a', 1))[1] as three \gset
select is(pg_temp.line(:two), 'quota:["pgrab_t_a"]', 'the second stands in line');
select matches(pg_temp.gate(:two, 'quota'), 'waits: quota of pgrab_t_a: 1 of 1 run. It waits in line, since',
  'explain says so');
select matches(pg_temp.gate(:three, 'quota'), '^waits: quota of pgrab_t_a: 1 of 1 run.$',
  'also to who has yet to ask');
select is(pgrab.why(:two), 'waits for a place under quota of pgrab_t_a', 'in a few words');
select is(pgrab.why(:three), 'waits for a place under quota of pgrab_t_a', 'and so do lists of both');
select is((select (running, in_line) from pg_temp.use('pgrab_t_a')), row(1::bigint, 1::bigint),
  'the view, too');
select pg_temp.ends(:one, pg_temp.version(:one));
select is(array[pg_temp.due(:two), pg_temp.starts(:three), pg_temp.starts(:two)], '{t,f,t}'::boolean[],
  'when it ends the next may go, and nobody else');
select is((select count(*) from pgrab.limits), 0::bigint, 'it is no limit that somebody made');
delete from pgrab.quota;
select pg_temp.tick();
select is(pg_temp.starts(:three), true, 'a quota that is gone lets its line go');

-- -------------------------------------------------------------------------------------- with a limit as well
delete from pgrab.task;
delete from pgrab.limit_place;
delete from pgrab.limit_use;
insert into pgrab.quota (owner, max_running) values ('pgrab_t_a', 2);
insert into pgrab.limit (key, max_running) values ('api', 1);
select i[1] as one, i[2] as two, i[3] as three, i[4] as four
from (select pg_temp.insert('pgrab_t_a', 4, '{"limit_key": "api", "run_at": "2026-01-01"}') as i) x \gset
select i[1] as plain, i[2] as later from (select pg_temp.insert('pgrab_t_a', 2) as i) x \gset
select is(array[pg_temp.starts(:one), pg_temp.starts(:two)], '{t,f}'::boolean[], 'both have to be met');
select is(pg_temp.line(:two), 'api', 'it waits for the one that was full');
select is(array[pg_temp.starts(:plain), pg_temp.starts(:three)], '{f,f}'::boolean[],
  'while it waits there its quota keeps a place for it');
select matches(pg_temp.gate(:two, 'quota'), '^ok: .*: 1 of 2 run. A place is kept for it', 'explain tells');
select pg_temp.ends(:one, pg_temp.version(:one));
select is(array[pg_temp.due(:two), pg_temp.due(:three), pg_temp.due(:plain)], '{t,t,f}'::boolean[],
  'when one has ended its places go to the first in each line');
select is(array[pg_temp.starts(:two), pg_temp.starts(:three)], '{t,f}'::boolean[],
  'who may have to wait again');
update pgrab.limit set max_running = 0 where key = 'api';
update pgrab.limit_place set at = at - interval '11 s' where not started;
select pg_temp.tick();
select is(array[pg_temp.line(:three), pg_temp.due(:plain)::text], '{api,true}'::text[],
  'under a limit that lets nothing run no place is kept for long');
select is(array[pg_temp.starts(:plain), pg_temp.starts(:later)], '{t,f}'::boolean[],
  'so others of the quota go on');
select pg_temp.ends(:plain, pg_temp.version(:plain));
select is(array[pg_temp.starts(:later), pg_temp.starts(:four)], '{t,f}'::boolean[], 'one after the other');
select pg_temp.ends(:later, pg_temp.version(:later));
select is(array[pg_temp.due(:four), pg_temp.starts(:four)], '{t,f}'::boolean[], 'or at all');
select is((select array_agg(p.task_id) from pgrab.limit_place p where p.key like 'quota:%'),
  array[:two]::bigint[], 'who asks there keeps no place from the start');
delete from pgrab.limit_place where task_id = :two;
update pgrab.task set paused = true where id = :two;
update pgrab.limit set max_running = 2 where key = 'api';
select pg_temp.tick();
update pgrab.quota set max_running = 0;
select is(array[pg_temp.starts(:three), pg_temp.starts(:four)], '{f,f}'::boolean[],
  'a quota that lets nothing run');
select is((select count(*) from pgrab.limit_place p where p.key = 'api' and not p.over), 0::bigint,
  'keeps no place under the limit from others');
select is(pgrab.why(:three), 'quota of pgrab_t_a lets nothing run (max_running 0)', 'and is named');
delete from pgrab.task;
delete from pgrab.quota;

-- ---------------------------------------------------------------------------------------------- by share_key
insert into pgrab.quota (share_key, max_tasks) values ('customer *', 2), ('customer 7', 3);
select pg_temp.insert('pgrab_t_a', 2, '{"share_key": "customer 1"}');
select matches(pg_temp.error($$select pg_temp.insert('pgrab_t_a', 1, '{"share_key": "customer 1"}')$$),
  'quota of pgrab_t_a for share_key .customer 1. is full', 'a pattern is a quota for each key');
select is(cardinality(pg_temp.insert('pgrab_t_a', 3, '{"share_key": "customer 7"}')), 3, 'a name says more');
select matches(pg_temp.error($$select pg_temp.insert('pgrab_t_a', 1, '{"share_key": "customer 7"}')$$),
  'is full', 'up to its number');
select is(cardinality(pg_temp.insert('pgrab_t_b', 2, '{"share_key": "customer 1"}')), 2,
  'tasks of another owner count by themselves');
insert into pgrab.quota (owner, max_tasks) values (current_user, 9223372036854775807);
select lives_ok($$select * from pgrab.quotas$$, 'no number is too large');
select finish();
rollback;
