-- A file of tasks: what it says is made so, and made so again it changes nothing.
begin;
select plan(69);
set local timezone = 'UTC';

-- Each task: its key, and what a person may have written.
create function pg_temp.tasks() returns text language sql as $$
  select string_agg(concat_ws(' ', t.key, t.kind, t.schedule, t.priority, t.source), ', ' order by t.key)
  from pgrab.task t
$$;
create temporary table file as select '{"source": "etl",
  "limits": [{"key": "api", "max_running": 5}],
  "tasks": [
    {"key": "a", "kind": "noop", "schedule": "@daily", "priority": 3},
    {"key": "b", "kind": "noop", "parents": ["a"], "limit_key": "api"},
    {"key": "c", "kind": "noop", "parents": ["b", "a"], "run_if": "always"}]}'::jsonb as file;
create function pg_temp.apply(p_source text default null, p_prune boolean default false) returns bigint
language sql as $$
  select pgrab.apply(f.file, p_source, p_prune) from file f
$$;

-- ------------------------------------------------------------------------------------------------ is made so
select is(pg_temp.apply(), 3::bigint, 'as many tasks as the file has');
select is(pg_temp.tasks(), 'a noop @daily 3 etl, b noop 0 etl, c noop 0 etl', 'are there');
select is((select string_agg(c.key || '<' || p.key || ' ' || c.run_if, ', ' order by c.key)
    from pgrab.task c join pgrab.task p on p.id = c.parent_id),
  'b<a success, c<b always', 'below the first parent that is named');
select is((select p.key || '>' || c.key || ' ' || e.run_if from pgrab.edge e
    join pgrab.task p on p.id = e.parent_id join pgrab.task c on c.id = e.child_id),
  'a>c always', 'and below the others');
select is((select l.max_running || ' ' || l.owner from pgrab.limit l where l.key = 'api'),
  '5 ' || current_user, 'under the limit that it says');

-- ----------------------------------------------------------------------------------------- again, nothing
create temporary table before as select t.id, t.version, t.updated_at from pgrab.task t;
delete from pgrab.event;
select is(pg_temp.apply(), 3::bigint, 'the same again');
select is((select count(*) from pgrab.task t join before b using (id, version, updated_at)), 3::bigint,
  'touches no row');
select is((select string_agg(e.what, ',') from pgrab.event e), null, 'and is no event');
select is(pgrab.export('etl') -> 'tasks' -> 2,
  '{"key": "c", "kind": "noop", "parents": ["b", "a"], "run_if": "always", "source": "etl"}',
  'export gives what is not default');
select is(pgrab.apply(pgrab.export('etl')), 3::bigint, 'what export gives apply takes');
select is((select count(*) from pgrab.task t join before b using (id, version, updated_at)), 3::bigint,
  'and finds it so');
insert into pgrab.task (id, key, kind, source) overriding system value values (101, 'batch', 'batch', 'etl');
insert into pgrab.task (id, key, kind, source, batch) overriding system value
values (102, 'member', 'noop', 'etl', 101);
insert into pgrab.task (id, key, kind, source, parent_id) overriding system value
values (103, 'its link', 'noop', 'etl', 102);
select is(jsonb_path_query_array(pgrab.export('etl'), '$.tasks[*].key'), '["a", "batch", "b", "c"]',
  'members of a batch, and what hangs on them, belong to no file');
select is(pgrab.apply(pgrab.export('etl'), null, true), 4::bigint, 'and prune leaves them alone');
select is((select count(*) from pgrab.task where id > 100), 3::bigint, 'as they are');
delete from pgrab.task where id > 100;

-- ------------------------------------------------------------------------------------------------- an edit
update pgrab.task set paused = true, run_at = '2099-01-01' where key = 'a';
update file set file = jsonb_set(file, '{tasks,0}', '{"key": "a", "kind": "noop", "schedule": "@daily"}');
select pg_temp.apply();
select is((select t.priority from pgrab.task t where t.key = 'a'), 0::smallint,
  'what is left out has its default again');
select is((select (t.paused, t.run_at)::text from pgrab.task t where t.key = 'a'),
  '(t,"2099-01-01 00:00:00+00")', 'but run_at and paused stay');
update file set file = jsonb_set(file, '{tasks,2,parents}', '["b"]');
select pg_temp.apply();
select is((select count(*) from pgrab.edge), 0::bigint, 'a parent that is not named any more is none');
update file set file = jsonb_set(file, '{limits,0,max_running}', '7');
select pg_temp.apply();
select is((select l.max_running from pgrab.limit l where l.key = 'api'), 7, 'a limit is changed');

-- --------------------------------------------------------------------------------------------------- prune
insert into pgrab.task (key, kind, run_at) values ('mine', 'noop', '2099-01-01');
update file set file = file #- '{tasks,2}';
select pg_temp.apply();
select is((select count(*) from pgrab.task), 4::bigint, 'what the file does not name stays');
select is(pg_temp.apply(null, true), 2::bigint, 'with prune');
select is((select string_agg(t.key, ' ' order by t.key) from pgrab.task t), 'a b mine',
  'what is missing of its source goes, and nothing else');
select throws_ok($$select pgrab.apply('[]', null, true)$$, '22023',
  'tasks that are missing from the file can only be deleted within one source');

select pgrab.apply('[{"key": "p", "kind": "noop", "schedule": "@daily"},
  {"key": "c", "kind": "noop", "parents": ["p"]}, {"key": "g", "kind": "noop", "parents": ["c"]}]', 'chain');
select pgrab.apply('[{"key": "p", "kind": "noop", "schedule": "@daily"},
  {"key": "c", "kind": "noop", "parents": ["p"]}]', 'chain', true);
select is((select count(*) from pgrab.task t where t.source = 'chain'), 2::bigint, 'the end of a chain goes');
select pgrab.apply('[]', 'chain', true);
select is((select count(*) from pgrab.task t where t.source = 'chain'), 0::bigint, 'and a whole chain');

-- --------------------------------------------------------------------------------------- what is refused
select throws_ok($$select pgrab.apply('{"source": "etl"}')$$, '22023', 'the file holds no tasks');
select throws_ok($$select pgrab.apply('7')$$, '22023', 'the file holds no tasks');
select throws_ok($$select pgrab.apply('[{"kind": "noop"}]')$$, '22023', '{"kind": "noop"}: it has no key');
select throws_ok($$select pgrab.apply('[{"key": "x", "status": "done"}]')$$, '22023',
  'task ''x'': status is not a column that can be set');
select throws_ok($$select pgrab.apply('[{"key": "x", "kind": "noop", "parents": ["y"]}]')$$, '22023',
  'task ''x'': its parent ''y'' does not exist');
select throws_ok($$select pgrab.apply('[{"key": "a", "kind": "noop"}]', 'other')$$, '22023',
  'task ''a'': it belongs to source ''etl''');
select throws_ok($$select pgrab.apply('[{"key": "x", "kind": "noop"}, {"key": "y", "kind": "ruby"}]')$$,
  '22023', 'task ''y'': task kind cannot be ''ruby''');
select throws_ok($$select pgrab.apply('[{"key": "x", "kind": "noop", "schedule": "60 * * * *"},
    {"key": "z", "kind": "noop", "parents": ["x"]}, {"key": "y", "kind": "ruby"}, {"kind": "noop"}]')$$,
  '22023', '3 of 4 tasks of the file are refused: x, y, {"kind": "noop"}',
  'all that is wrong is said at once');
select is((select count(*) from pgrab.task where key in ('x', 'y')), 0::bigint,
  'and all of the file with it');
select is(pgrab.apply('[{"key": "mine", "kind": "noop"}]', 'etl'), 1::bigint,
  'a task without a source may be taken into one');
select is((select t.source from pgrab.task t where t.key = 'mine'), 'etl', 'and belongs to it then');

-- The first of two would be lost, and the next apply would make it run again.
select throws_ok(format('select pgrab.apply(%L)', file), '22023', said, said)
from (values
  ('[{"key": "x", "kind": "noop"}, {"key": "y", "kind": "noop"}, {"key": "x", "command": "select 1"}]',
    'task ''x'' is in the file twice'),
  ('[{"key": 7, "kind": "noop"}, {"key": "7", "kind": "noop"}]', 'task ''7'' is in the file twice'),
  ('{"tasks": [], "limits": [{"key": "x", "max_running": 1}, {"key": "x", "max_running": 2}]}',
    'limit ''x'' is in the file twice'),
  ('{"tasks": [], "calendars": [{"name": "x"}, {"name": "y"}, {"name": "x"}]}',
    'calendar ''x'' is in the file twice'),
  ('{"tasks": [], "blackouts": [{"name": "x", "schedule": "@daily", "lasts": "1 hour"},
    {"name": "x", "schedule": "@weekly", "lasts": "1 hour"}]}', 'blackout ''x'' is in the file twice'),
  ('{"tasks": [], "quotas": [{"share_key": "x", "max_tasks": 1}, {"share_key": "x", "max_tasks": 2}]}',
    'quota ''x'' is in the file twice'),
  ('{"tasks": [], "quotas": [{"owner": "x", "max_tasks": 1}, {"owner": "x", "max_tasks": 2}]}',
    'quota ''x'' is in the file twice')) v(file, said);
select is((select count(*) from pgrab.task where key in ('x', 'y', '7')), 0::bigint, 'nothing was applied');
select lives_ok($$select pgrab.apply('{"tasks": [{"key": "x", "kind": "noop", "run_at": "2099-01-01"}],
    "limits": [{"key": "x", "max_running": 1}], "calendars": [{"name": "x"}],
    "quotas": [{"share_key": "x", "max_tasks": 1}]}')$$,
  'things of several kinds may be called alike');
select pgrab.delete('x');
delete from pgrab.quota;
delete from pgrab.limit where key = 'x';
delete from pgrab.calendar where name = 'x';

-- ---------------------------------------------------------------------------------------------------- quotas
create function pg_temp.quotas(p_more text) returns bigint language sql as $$
  select pgrab.apply(format('{"tasks": [], "quotas": [{"owner": "%s", "max_tasks": 10, "when_full": "hold"},
    {"share_key": "c*", "max_running": 2%s}]}', current_user, p_more)::jsonb) $$;
select pg_temp.quotas('');
select is((select string_agg(concat_ws(' ', q.share_key, q.max_tasks, q.max_running, q.when_full), ', '
    order by q.id) from pgrab.quota q), '10 hold, c* 2 refuse', 'quotas are made what the file says');
delete from pgrab.event;
select pg_temp.quotas('');
select is((select count(*) from pgrab.event), 0::bigint, 'a second time nothing changes');
select pg_temp.quotas(', "max_bytes": 100');
select is((select q.max_bytes from pgrab.quota q where q.share_key = 'c*'), 100, 'and what is edited does');
select is(pgrab.export() -> 'quotas' -> 1,
  '{"share_key": "c*", "max_running": 2, "max_bytes": 100, "when_full": "refuse"}',
  'export writes such a file');

-- ------------------------------------------------------------------------------- what tasks of a source name
insert into pgrab.limit (key, max_running) values ('named', 1), ('some:*', 1), ('other', 1), ('other:*', 1);
insert into pgrab.calendar (name) values ('named'), ('other');
insert into pgrab.blackout (name, schedule, lasts, source) values
  ('mine', '@daily', '1 hour', 'part'), ('all', '@daily', '1 hour', null);
insert into pgrab.task (key, kind, source, limit_key, calendar, schedule) values
  ('part 1', 'noop', 'part', 'named', 'named', '@daily'),
  ('part 2', 'noop', 'part', 'some:one', null, '@daily');
select is((select string_agg(k.what || ' ' || y.name, ', ' order by k.n, y.name)
    from (values (1, 'limits'), (2, 'quotas'), (3, 'calendars'), (4, 'blackouts'), (5, 'tasks')) k(n, what)
      cross join lateral jsonb_array_elements(pgrab.export('part') -> k.what) x
      cross join lateral coalesce(x ->> 'key', x ->> 'name') y(name)),
  'limits named, limits some:*, calendars named, blackouts mine, tasks part 1, tasks part 2',
  'export of a source has what its tasks name');
select is((select count(*) from jsonb_array_elements(pgrab.export() -> 'limits') l
  where l ->> 'key' in ('named', 'some:*', 'other', 'other:*')), 4::bigint, 'and that of all has all');
select pgrab.delete(array(select t.id from pgrab.task t where t.source = 'part'));
delete from pgrab.blackout where name in ('mine', 'all');

-- Links: an edge has a run_if of its own, parents come first, and their order is none.
insert into pgrab.task (key, kind, run_at) values
  ('l1', 'noop', '2100-01-01'), ('p1', 'noop', '2100-01-01'), ('p2', 'noop', '2100-01-01');
update pgrab.task set parent_id = pgrab_tool.id_of('p1') where key = 'l1';
insert into pgrab.edge values (pgrab_tool.id_of('p2'), pgrab_tool.id_of('l1'), 'failure');
create function pg_temp.links() returns text language sql as $$
  select string_agg(x.key || ' ' || p.run_if, ', ' order by x.key)
  from pgrab_internal.parents_of(pgrab_tool.id_of('l1')) p join pgrab.task x on x.id = p.parent_id
$$;
create temp table links as select jsonb_build_object('tasks', jsonb_agg(t.task order by t.n)) as file
from jsonb_array_elements(pgrab.export() -> 'tasks') with ordinality t(task, n)
where t.task ->> 'key' in ('l1', 'p1', 'p2');
select is((select l.file #> '{tasks,2,parents}' from links l), '["p1", {"key": "p2", "run_if": "failure"}]',
  'the parents of a link');
select is((select pgrab.apply(l.file) from links l), 3::bigint, 'applied again');
select is(pg_temp.links(), 'p1 success, p2 failure', 'nothing changes');
select pgrab.delete(array(
  select t.id from pgrab.task t where t.key in ('l1', 'p1', 'p2') order by t.id desc));
select is((select pgrab.apply(l.file) from links l), 3::bigint, 'or when they are gone');
select is(pg_temp.links(), 'p1 success, p2 failure', 'they are there as before');
select is((select array_agg(t.run_at) from pgrab.task t where t.key in ('p1', 'p2')),
  '{2100-01-01Z,2100-01-01Z}', 'for the same time');
select is((select a.definition -> 'parents' from pgrab_tool.applied() a where a.name = 'l1'),
  '["p1", {"key": "p2", "run_if": "failure"}]', 'which pgrab apply compares');
select lives_ok($$select pgrab.apply('[{"key": "l1", "kind": "noop", "parents": ["p2", "p1"]}]')$$,
  'turned round');
select is(pg_temp.links(), 'p1 success, p2 success', 'both are parents');
select lives_ok($$select pgrab.apply('[{"key": "l1", "kind": "noop", "parents": ["p2"]}]')$$, 'one of them');
select is(pg_temp.links(), 'p2 success', 'the other is none any more');

select throws_like($$select pgrab.apply('[{"key": "x", "kind": "noop", "parents": "p2"}]')$$,
  '%parents cannot be p2', 'no array');
select throws_like(format('select pgrab.apply(%L)',
    format('[{"key": "x", "kind": "noop", "parents": [%s, "p2"]}]', p)),
  'task ''x'': a parent cannot be %', 'nor is ' || p)
from (values ('null'), ('{"kye": "p2"}'), ('{"key": "p2", "if": 1}'), ('{"key": "p2", "run_if": "x"}')) v(p);
select lives_ok($$select pgrab.apply('{"tasks": [], "limits": [{"key": "batch:12345", "max_running": 2}]}')$$,
  'the limit of a batch belongs to that');
select lives_ok($$select pgrab.apply('{"tasks": [], "calendars": [{"name": "two", "days": [
  {"day": "2100-12-26", "note": "a"}, {"day": "2100-12-26", "note": "b"}]}]}')$$, 'two holidays on one day');
select is((select d.note from pgrab.calendar_day d where d.calendar = 'two'), 'a', 'the first counts');

select * from finish();
rollback;
