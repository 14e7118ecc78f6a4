-- The definition that a run had, and how a task has changed: kept once per change, also after DELETE.
begin;
\ir nodes.inc
select plan(30);
set local timezone = 'UTC';
select pgrab.upkeep();
select setval(pg_get_serial_sequence('pgrab.task', 'id'), 1000);
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at, bell) values
  ('n1', 'h', 1, '0', 'id_hash', 4, '{noop}', '1 s', '10 s', now(), 11, 'up', now(), false);
-- As a node does it: a claim and a start, and later the finish.
create function pg_temp.begins(p_id bigint) returns void language sql as $$
  update pgrab.task t set status = 'running', due_at = coalesce(t.due_at, now()), node_id = 1,
    incarnation = 11, version = t.version + 1, attempt = t.attempt + 1, started_at = clock_timestamp()
  where t.id = p_id;
$$;
create function pg_temp.ends(p_id bigint, p_outcome text default 'succeeded') returns void language sql as $$
  select pgrab_internal.finish((array[p_id], array[t.version], array[11], array[2000000], array[1000000],
    array[p_outcome], null, null, null, array[case when p_outcome <> 'succeeded' then 'boom' end],
    null, null)::pgrab_internal.outcomes, 1, 'n1')
  from pgrab.task t where t.id = p_id;
$$;
create function pg_temp.runs(p_id bigint) returns void language sql as $$
  select pg_temp.begins(p_id), pg_temp.ends(p_id);
$$;
-- The commands that the runs of a task had, the oldest first.
create function pg_temp.had(p_id bigint) returns text language sql as $$
  select string_agg(coalesce(pgrab.definition_of(r.task_id, r.version) ->> 'command', '-'),
    ' ' order by r.version)
  from pgrab.run r where r.task_id = p_id and r.started_at is not null
$$;
create function pg_temp.kept() returns bigint language sql as $$ select count(*) from pgrab.definition $$;

-- ---------------------------------------------------------------------------------- plain tasks cost nothing
insert into pgrab.task (id, kind, command, schedule, key) overriding system value values
  (1, 'shell', 'one', '@every 1h', 'nightly');
insert into pgrab.task (id, kind, command, name) overriding system value values
  (2, 'shell', 'plain', 'p'), (3, 'shell', 'unborn', null), (4, 'noop', '', null);
select is(pg_temp.kept(), 0::bigint, 'an insert keeps nothing');
select pg_temp.runs(1), pg_temp.runs(2), pg_temp.runs(4);
select is(pg_temp.kept(), 0::bigint, 'nor does a run');
select is((pg_temp.had(1), pg_temp.had(2), pg_temp.had(4))::text, '(one,plain,-)',
  'and yet it is known what each ran');
update pgrab.task set command = 'edited' where id = 3;
select is(pg_temp.kept(), 0::bigint, 'what has never run and has no schedule is edited for nothing');
select pg_temp.runs(3);
select is(pg_temp.had(3), 'edited', 'it ran what it was then');

-- ----------------------------------------------------------------------------------------------------- edits
update pgrab.task set command = 'two', timeout = '5 minutes' where id = 1;
select is(pg_temp.kept(), 2::bigint, 'an edit keeps what was and what is');
select pg_temp.runs(1), pg_temp.runs(1);
update pgrab.task set command = 'two' where id = 1;
update pgrab.task set paused = true, run_at = now() + interval '1 day' where id = 1;
update pgrab.task set paused = false where id = 1;
select is(pg_temp.kept(), 2::bigint, 'what changes nothing of the definition keeps nothing');
select pg_temp.begins(1);
update pgrab.task set command = 'three' where id = 1;
update pgrab.task set command = 'four' where id = 1;
select is(pg_temp.kept(), 3::bigint, 'two edits during one run are one definition: nothing ran the first');
select pg_temp.ends(1, 'failed');
select pg_temp.runs(1);
select is(pg_temp.had(1), 'one two two two four',
  'a run has what it began with, whatever is edited meanwhile');
select is((select string_agg(c.changed || ' ' || c.before || ' ' || c.after, ', ')
    from pgrab.changes('nightly') c where c.role = current_user),
  'command one two, timeout 01:00:00 00:05:00, command two four', 'how it has changed, column by column');
select is((select bool_and(d.until is not null) from pgrab.definition d
    where d.version < (select max(x.version) from pgrab.definition x)), true, 'those before are over');
select is((select d.until from pgrab.definition d order by d.version desc limit 1), null,
  'the last one is not');
update pgrab.task set name = 'n', command = '', kind = 'noop' where id = 1;
select is(
  (select string_agg(c.changed || ' ' || coalesce(c.before, '-') || ' ' || coalesce(c.after, '-'), ', ')
    from pgrab.changes(1) c where c.version = (select max(version) from pgrab.definition)),
  'command four , kind shell noop, name - n', 'name and kind belong to it');
update pgrab.task set command = 'x' || command, kind = 'shell' where id = 1;
select pg_temp.runs(1);
select is(pg_temp.had(1), 'one two two two four x', 'and so on');

-- A retry has what its task is by then.
insert into pgrab.task (id, kind, command, backoff) overriding system value values
  (5, 'shell', 'wrong', '1 ms');
select pg_temp.begins(5);
select pg_temp.ends(5, 'failed');
update pgrab.task set command = 'right' where id = 5;
select pg_temp.runs(5);
select is(pg_temp.had(5), 'wrong right', 'each try has its own');
select is((select r.definition ->> 'command' from pgrab.run r where r.task_id = 5 and r.ended = 'done'),
  'right', 'the last is in the history as always');

-- A schedule that becomes a task that runs once.
insert into pgrab.task (id, kind, command, schedule) overriding system value values
  (6, 'shell', 'a', '@every 1h');
update pgrab.task set schedule = null where id = 6;
update pgrab.task set command = 'b' where id = 6;
select pg_temp.runs(6);
select is(pg_temp.had(6), 'b', 'no edit is left out once there was one');

-- ---------------------------------------------------------------------------------------------------- delete
delete from pgrab.task where id = 1;
select is(pg_temp.had(1), 'one two two two four x', 'after DELETE the same');
select is((select d.until is not null from pgrab.definition d where d.task_id = 1
    order by d.version desc limit 1), true, 'it is over');
select is(pgrab_tool.defined_id('nightly'), 1::bigint, 'it answers to its key');
select is((select count(*) from pgrab.changes('nightly')), 8::bigint, 'and its name');
insert into pgrab.task (id, kind, command, schedule, key) overriding system value values
  (7, 'shell', 'never edited', '@every 1h', 'nightly');
select is(pgrab_tool.defined_id('nightly'), 7::bigint, 'until another one has it');
select pg_temp.runs(7);
delete from pgrab.task where id = 7;
select is(pg_temp.had(7), 'never edited', 'what was never edited is kept by DELETE');
insert into pgrab.task (id, kind, command, schedule) overriding system value values
  (8, 'shell', 'by function', '@every 1h');
select pg_temp.runs(8), pgrab.delete(8);
select is(pg_temp.had(8), 'by function', 'pgrab.delete()');
select is((select count(*) from pgrab.definition d where d.task_id = 8), 0::bigint,
  'has it in the history already');
select throws_ok($$select pgrab_tool.defined_id('nobody')$$, 'P0002',
  'no task has the key or name ''nobody''', 'what nobody knows');

-- ---------------------------------------------------------------------------------------------------- upkeep
insert into pgrab.task (id, kind, command, schedule, max_runs) overriding system value values
  (9, 'shell', 'x', '@every 1h', 1);
update pgrab.task set command = 'y' where id = 9;
select pg_temp.runs(9);
select pgrab.upkeep();
select is((select d.until is not null from pgrab.definition d where d.task_id = 9
    order by d.version desc limit 1), true, 'what has ended is over');
update pgrab.definition set until = until - interval '8 days' where until is not null;
select pgrab.upkeep();
select is((pg_temp.had(1), pg_temp.had(5), pg_temp.had(9))::text,
  '("one two two two four x","wrong right",y)', 'what a run refers to stays');
select is_empty('select from pgrab.definition d where d.task_id = 9 and d.version = 0',
  'the rest goes after the retention');
delete from pgrab.run;
select pgrab.upkeep();
select is((select array_agg(distinct d.task_id) from pgrab.definition d), null,
  'and all of it with the last run');
select * from finish();
rollback;
