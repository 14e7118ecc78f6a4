-- The definition of a task as JSON, and its args as a node reads them.
begin;
select plan(20);

-- ---------------------------------------------------------------------------------------------- definition()
create function pg_temp.definition(p_id bigint) returns jsonb language sql as $$
  select pgrab.definition(p_id)
$$;
insert into pgrab.task (id, kind, name) overriding system value values (40, 'noop', 'plain');
select is(pg_temp.definition(40), null, 'a plain task has no definition to keep');
insert into pgrab.task (id, command) overriding system value values (41, 'select 1');
select is(pg_temp.definition(41), '{"command": "select 1"}', 'the command is kept');
insert into pgrab.task (id, kind, command, args, key, priority, timeout, max_attempts, backoff, backoff_max,
  delivery, require) overriding system value values
  (42, 'shell', 'x', '{"cwd": "/", "env": {"A": null}}', 'forty-two', -5, '1 day', 7, '1 s', '2 s',
    'at_most_once', '{"zone": "eu"}');
select is(pg_temp.definition(42) - 'args',
  '{"command": "x", "key": "forty-two", "priority": -5, "timeout": "1 day", "max_attempts": 7,
    "backoff": "00:00:01", "backoff_max": "00:00:02", "delivery": "at_most_once", "require": {"zone": "eu"}}',
  'everything that is not default is kept');
select is(pg_temp.definition(42) -> 'args' ->> 'cwd', '/', 'and the args');

-- each column of the definition, alone
create temporary table alone (n integer generated always as identity, col text, val text);
insert into alone (col, val) values
  ('key', 'k9'), ('command', 'c'), ('priority', '1'), ('timeout', '00:00:01'), ('max_attempts', '1'),
  ('backoff', '00:00:06'),
  ('backoff_max', '02:00:00'), ('delivery', 'at_most_once'), ('require', '{"a": "b"}'), ('misfire', 'skip'),
  ('misfire_after', '00:02:00'), ('misfire_limit', '5'), ('timezone', 'Asia/Tokyo'), ('jitter', '00:00:01'),
  ('source', 's');
do $$
declare
  a record;
begin
  for a in select * from alone loop
    execute format('insert into pgrab.task (id, kind, %I) overriding system value values (%s, ''noop'', %L)',
      a.col, 100 + a.n, a.val);
  end loop;
end $$;
select is((pg_temp.definition(100 + a.n) ->> a.col), a.val, 'kept alone: ' || a.col)
from alone a order by a.n;
select is_empty($$
  select t.id from pgrab.task t
  where pgrab_internal.definition_own(row(t.*)::pgrab_internal.task)
    <> pgrab_internal.definition_rare(row(t.*)::pgrab_internal.task)
  $$, 'the short way makes the same definition as the one for all columns');

select * from finish();
rollback;
