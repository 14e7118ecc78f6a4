-- What pgrab.task refuses, completes and honours.
begin;
select plan(301);

-- What the server says to a statement: SQLSTATE, column, message, hint; null when it says nothing.
create function pg_temp.refusal(p_sql text, out state text, out col text, out message text, out hint text)
language plpgsql as $$
begin
  begin
    execute p_sql;
    raise exception using errcode = 'P0999';
  exception when others then
    get stacked diagnostics state = returned_sqlstate, col = column_name, message = message_text,
      hint = pg_exception_hint;
    if state = 'P0999' then
      state := null; col := null; message := null; hint := null;
    end if;
  end;
end $$;

-- ------------------------------------------------------------------------------------------- what is refused
-- Columns and values of an insert; the column that is named, the value as the message shows it, part of the
-- hint.
create temporary table bad (
  n integer generated always as identity, col text, shown text, hint text, cols text, vals text);
insert into bad (col, shown, hint, cols, vals) values
  ('kind', '''ruby''', 'Kinds are: exec, http, noop, notify, shell, sql.', 'kind, command', $$'ruby', 'x'$$),
  ('kind', '''''', 'Kinds are:', 'kind', $$''$$),
  ('kind', 'null', 'Leave it out', 'kind, command', $$null, 'x'$$),
  ('command', 'null', 'Leave it out', 'command', 'null'),
  ('args', 'null', 'Leave it out', 'kind, args', $$'noop', null$$),
  ('paused', 'null', 'Leave it out', 'kind, paused', $$'noop', null$$),
  ('require', 'null', 'Leave it out', 'kind, require', $$'noop', null$$),
  ('delivery', 'null', 'Leave it out', 'kind, delivery', $$'noop', null$$),
  ('priority', 'null', 'Leave it out', 'kind, priority', $$'noop', null$$),
  ('kind', '''SQL''', 'Kinds are:', 'kind, command', $$'SQL', 'x'$$),
  ('command', '''''', 'one or more SQL statements', 'kind', $$'sql'$$),
  ('command', '''''', 'a line for sh', 'kind', $$'shell'$$),
  ('command', '''''', 'the path of a program', 'kind', $$'exec'$$),
  ('command', '''''', 'a URL', 'kind', $$'http'$$),
  ('command', '''''', 'the name of a channel', 'kind', $$'notify'$$),
  ('command', ''' ''', 'needs a command', 'kind, command', $$'sql', ' '$$),
  ('command', E'''\n\t ''', 'needs a command', 'kind, command', $$'shell', E'\n\t '$$),
  ('command', ''' ''', 'text that is not blank', 'kind, command', $$'noop', ' '$$),
  ('command', '''1048577 bytes long''', '1 MiB', 'kind, command', $$'sql', repeat('x', 1048577)$$),
  ('command', '''1048578 bytes long''', '1 MiB', 'kind, command', $$'sql', repeat('é', 524289)$$),
  ('command', '''example.org''', 'begins with http:// or https://', 'kind, command',
    $$'http', 'example.org'$$),
  ('command', '''ftp://example.org/''', 'begins with http:// or https://', 'kind, command',
    $$'http', 'ftp://example.org/'$$),
  ('command', '''http://''', 'and a host', 'kind, command', $$'http', 'http://'$$),
  ('command', '''http:///path''', 'and a host', 'kind, command', $$'http', 'http:///path'$$),
  ('command', '''file:///etc/passwd''', 'begins with http:// or https://', 'kind, command',
    $$'http', 'file:///etc/passwd'$$),
  ('command', quote_literal(repeat('c', 64)), 'at most 63 bytes', 'kind, command',
    $$'notify', repeat('c', 64)$$),
  ('args', '''[]''', 'args is a JSON object', 'kind, args', $$'noop', '[]'$$),
  ('args', '''null''', 'args is a JSON object', 'kind, args', $$'noop', 'null'$$),
  ('args', '''"x"''', 'args is a JSON object', 'kind, command, args', $$'sql', 'x', '"x"'$$),
  ('args', '''1''', 'args is a JSON object', 'kind, args', $$'noop', '1'$$),
  ('args', '''1048590 bytes long''', '1 MiB', 'kind, command, args',
    $$'sql', 'x', jsonb_build_object('params', repeat('x', 1048576))$$),
  ('args', '''a''', 'takes no args', 'kind, args', $$'noop', '{"a": 1}'$$),
  ('args', '''parms''', 'takes: params', 'kind, command, args', $$'sql', 'x', '{"parms": []}'$$),
  ('args', '''argv''', 'takes: cwd, env, stdin, limits', 'kind, command, args',
    $$'shell', 'x', '{"argv": []}'$$),
  ('args', '''params''', 'takes: cwd, env, argv, stdin, limits', 'kind, command, args',
    $$'exec', '/bin/x', '{"params": []}'$$),
  ('args', '''header''', 'takes: body, expect, follow, method, headers', 'kind, command, args',
    $$'http', 'http://h', '{"header": {}}'$$),
  ('args', '''body''', 'takes: payload', 'kind, command, args', $$'notify', 'c', '{"body": ""}'$$),
  ('args', '''{"params": {}}''', 'params is a JSON array', 'kind, command, args',
    $$'sql', 'x', '{"params": {}}'$$),
  ('args', '''{"params": "x"}''', 'params is a JSON array', 'kind, command, args',
    $$'sql', 'x', '{"params": "x"}'$$),
  ('args', '''{"env": ["A=1"]}''', 'env is a JSON object', 'kind, command, args',
    $$'shell', 'x', '{"env": ["A=1"]}'$$),
  ('args', '''{"stdin": 1}''', 'stdin is a JSON string', 'kind, command, args',
    $$'shell', 'x', '{"stdin": 1}'$$),
  ('args', '''{"cwd": true}''', 'cwd is a JSON string', 'kind, command, args',
    $$'exec', '/x', '{"cwd": true}'$$),
  ('args', '''{"argv": "a b"}''', 'argv is a JSON array', 'kind, command, args',
    $$'exec', '/x', '{"argv": "a b"}'$$),
  ('args', '''{"method": 1}''', 'method is a JSON string', 'kind, command, args',
    $$'http', 'http://h', '{"method": 1}'$$),
  ('args', '''{"headers": []}''', 'headers is a JSON object', 'kind, command, args',
    $$'http', 'http://h', '{"headers": []}'$$),
  ('args', '''{"body": 1}''', 'body is a JSON string or object or array', 'kind, command, args',
    $$'http', 'http://h', '{"body": 1}'$$),
  ('args', '''{"expect": {}}''', 'expect is a JSON array or string or number', 'kind, command, args',
    $$'http', 'http://h', '{"expect": {}}'$$),
  ('args', '''{"expect": 99}''', 'expect is a status such as 204', 'kind, command, args',
    $$'http', 'http://h', '{"expect": 99}'$$),
  ('args', '''{"expect": "200-299"}''', 'expect is a status such as 204', 'kind, command, args',
    $$'http', 'http://h', '{"expect": "200-299"}'$$),
  ('args', '''{"expect": ["2xx", "6xx"]}''', 'expect is a status such as 204', 'kind, command, args',
    $$'http', 'http://h', '{"expect": ["2xx", "6xx"]}'$$),
  ('args', '''{"expect": "' || repeat('200,', 33) || '"}''', 'at most 32', 'kind, command, args',
    $$'http', 'http://h', jsonb_build_object('expect', repeat('200,', 33))$$),
  ('args', '''{"follow": "yes"}''', 'follow is a JSON boolean', 'kind, command, args',
    $$'http', 'http://h', '{"follow": "yes"}'$$),
  ('args', '''{"payload": {}}''', 'payload is a JSON string', 'kind, command, args',
    $$'notify', 'c', '{"payload": {}}'$$),
  ('args', '''{"env": {"A": {"secret": 1}}}''', 'plain values only', 'kind, command, args',
    $$'shell', 'x', '{"env": {"A": {"secret": 1}}}'$$),
  ('args', '''{"env": {"A": {"file": "x", "secret": "y"}}}''', 'plain values only', 'kind, command, args',
    $$'shell', 'x', '{"env": {"A": {"file": "x", "secret": "y"}}}'$$),
  ('args', '''{"env": {"A": {"B": 1}}}''', 'plain values only', 'kind, command, args',
    $$'shell', 'x', '{"env": {"A": {"B": 1}}}'$$),
  ('args', '''{"argv": ["a", ["b"]]}''', 'plain values only', 'kind, command, args',
    $$'exec', '/x', '{"argv": ["a", ["b"]]}'$$),
  ('args', '''{"headers": {"A": [1]}}''', 'plain values only', 'kind, command, args',
    $$'http', 'http://h', '{"headers": {"A": [1]}}'$$),
  ('args', '''{"env": {"A=B": ...}}''', 'letters, digits and underscores', 'kind, command, args',
    $$'shell', 'x', '{"env": {"A=B": "1"}}'$$),
  ('args', '''{"env": {"1A": ...}}''', 'does not begin with a digit', 'kind, command, args',
    $$'exec', '/x', '{"env": {"1A": "1"}}'$$),
  ('args', '''{"env": {"": ...}}''', 'letters, digits and underscores', 'kind, command, args',
    $$'shell', 'x', '{"env": {"": "1"}}'$$),
  ('args', '''payload of 8000 bytes''', 'at most 7999 bytes', 'kind, command, args',
    $$'notify', 'c', jsonb_build_object('payload', repeat('x', 8000))$$),
  ('name', '''''', '1 to 1000 bytes', 'kind, name', $$'noop', ''$$),
  ('name', quote_literal(repeat('n', 200)), '1 to 1000 bytes', 'kind, name', $$'noop', repeat('n', 1001)$$),
  ('key', '''''', '1 to 1000 bytes', 'kind, key', $$'noop', ''$$),
  ('key', quote_literal(repeat('k', 200)), '1 to 1000 bytes', 'kind, key', $$'noop', repeat('k', 1001)$$),
  ('run_at', '''infinity''', 'Give a point in time', 'kind, run_at', $$'noop', 'infinity'$$),
  ('run_at', '''-infinity''', 'paused = true', 'kind, run_at', $$'noop', '-infinity'$$),
  ('timeout', '''00:00:00''', 'between 1 ms and 365 days', 'kind, timeout', $$'noop', '0'$$),
  ('timeout', '''-00:00:01''', 'between 1 ms and 365 days', 'kind, timeout', $$'noop', '-1 s'$$),
  ('timeout', '''366 days''', 'between 1 ms and 365 days', 'kind, timeout', $$'noop', '366 days'$$),
  ('timeout', 'null', 'Leave it out', 'kind, timeout', $$'noop', null$$),
  ('max_attempts', '''0''', '1 to 1000', 'kind, max_attempts', $$'noop', 0$$),
  ('max_attempts', '''1001''', '1 to 1000', 'kind, max_attempts', $$'noop', 1001$$),
  ('max_attempts', 'null', 'Leave it out', 'kind, max_attempts', $$'noop', null$$),
  ('backoff', '''-00:00:01''', 'between 0 and 365 days', 'kind, backoff', $$'noop', '-1 s'$$),
  ('backoff', '''366 days''', 'between 0 and 365 days', 'kind, backoff', $$'noop', '366 days'$$),
  ('backoff_max', '''00:00:01''', 'between backoff and 365 days', 'kind, backoff_max', $$'noop', '1 s'$$),
  ('backoff_max', '''366 days''', 'and 365 days', 'kind, backoff_max', $$'noop', '366 days'$$),
  ('delivery', '''exactly_once''', 'One of: at_least_once, at_most_once.', 'kind, delivery',
    $$'noop', 'exactly_once'$$),
  ('misfire', '''none''', 'One of: skip, once, all.', 'kind, misfire', $$'noop', 'none'$$),
  ('misfire_after', '''00:00:00''', 'Between 1 s and 365 days.', 'kind, misfire_after', $$'noop', '0'$$),
  ('misfire_limit', '''-1''', 'Between 0 and 100000.', 'kind, misfire_limit', $$'noop', -1$$),
  ('misfire_limit', '''100001''', 'Between 0 and 100000.', 'kind, misfire_limit', $$'noop', 100001$$),
  ('max_runs', '''0''', 'At least 1', 'kind, max_runs', $$'noop', 0$$),
  ('jitter', '''-00:00:01''', 'Between 0 and 7 days.', 'kind, jitter', $$'noop', '-1 s'$$),
  ('jitter', '''8 days''', 'Between 0 and 7 days.', 'kind, jitter', $$'noop', '8 days'$$),
  ('ends_at', '''2026-01-01T00:00:00+00:00''', 'later than starts_at', 'kind, starts_at, ends_at',
    $$'noop', '2026-01-01 00:00Z', '2026-01-01 00:00Z'$$),
  ('run_if', '''maybe''', 'One of: success, failure, always.', 'kind, run_if', $$'noop', 'maybe'$$),
  ('require', '''["eu"]''', 'A JSON object of label values', 'kind, require', $$'noop', '["eu"]'$$),
  ('require', '''{"cores": 8}''', 'values are strings', 'kind, require', $$'noop', '{"cores": 8}'$$),
  ('schedule', '''@often''', 'Unknown word. The words are @yearly', 'kind, schedule', $$'noop', '@often'$$),
  ('schedule', '''0 0 30 2 *''', 'It can never fire. No month', 'kind, schedule', $$'noop', '0 0 30 2 *'$$),
  ('schedule', '''*/0 * * * *''', 'step', 'kind, schedule', $$'noop', '*/0 * * * *'$$),
  ('schedule', '''''', 'It is empty. Write null', 'kind, schedule', $$'noop', ''$$),
  ('timezone', '''Mars/Base''', 'IANA', 'kind, schedule, timezone', $$'noop', '@daily', 'Mars/Base'$$),
  ('timezone', '''Mars/Base''', 'IANA', 'kind, timezone', $$'noop', 'Mars/Base'$$),
  ('ends_at', '''2001-01-01 00:00:00+00''', 'The first fire of "@daily" would be', 'kind, schedule, ends_at',
    $$'noop', '@daily', '2001-01-01Z'$$),
  ('starts_at', '''infinity''', 'Give a point in time', 'kind, starts_at', $$'noop', 'infinity'$$),
  ('limit_key', '''api''', 'no such limit. Make it first', 'kind, limit_key', $$'noop', 'api'$$);

set local timezone = 'UTC';
select is(r.state, '22023', format('%s %s: refused with invalid_parameter_value', b.col, b.shown))
from bad b, pg_temp.refusal(format('insert into pgrab.task (%s) values (%s)', b.cols, b.vals)) r order by b.n;
select is(r.col || ' | ' || r.message || ' | ' || (position(b.hint in r.hint) > 0),
  b.col || ' | task ' || b.col || ' cannot be ' || b.shown || ' | true',
  format('%s %s: column, value and hint are named (%s)', b.col, left(b.shown, 60), left(r.hint, 80)))
from bad b, pg_temp.refusal(format('insert into pgrab.task (%s) values (%s)', b.cols, b.vals)) r order by b.n;
select is(count(*), 0::bigint, 'nothing of all this was inserted') from pgrab.task;

-- JSON with \u0000 does not even become jsonb.
select is(r.state, '22P05', 'a NUL in args is refused by jsonb itself')
from pg_temp.refusal(
  $$insert into pgrab.task (kind, command, args) values ('shell', 'x', '{"stdin": "\u0000"}')$$) r;
select is(r.state, null, 'a backslash before u0000 is text, not a NUL: ' || coalesce(r.message, ''))
from pg_temp.refusal(
  $$insert into pgrab.task (kind, command, args) values ('shell', 'x', '{"stdin": "\\u0000"}')$$) r;

-- an UPDATE is checked too
insert into pgrab.task (id, kind, key) overriding system value values (1000000, 'noop', 'u');
select is(r.state || r.col, '22023timeout', 'an update is checked like an insert')
from pg_temp.refusal($$update pgrab.task set timeout = '0' where id = 1000000$$) r;
select is(r.state || r.col, '22023run_at', 'run_at cannot be taken away')
from pg_temp.refusal($$update pgrab.task set run_at = 'infinity' where id = 1000000$$) r;
select is(r.state, '23505', 'two live tasks of one key')
from pg_temp.refusal($$insert into pgrab.task (kind, key) values ('noop', 'u')$$) r;

-- ------------------------------------------------------------------------------------------ what is accepted
create temporary table good (n integer generated always as identity, about text, cols text, vals text);
insert into good (about, cols, vals) values
  ('a command of exactly 1 MiB', 'command', $$repeat('x', 1048576)$$),
  ('a URL without a path', 'kind, command', $$'http', 'HTTPS://example.org'$$),
  ('a channel of 63 bytes', 'kind, command', $$'notify', repeat('c', 63)$$),
  ('a payload of 7999 bytes', 'kind, command, args',
    $$'notify', 'c', jsonb_build_object('payload', repeat('x', 7999))$$),
  ('names of secrets and files in place of values', 'kind, command, args',
    $$'http', 'http://h', '{"headers": {"A": {"secret": "api"}, "B": {"file": "b/c"}, "C": "d"}}'$$),
  ('names of secrets in env', 'kind, command, args', $$'shell', 'x', '{"env": {"A": {"secret": "api"}}}'$$),
  ('a body of any depth', 'kind, command, args',
    $$'http', 'http://h', '{"method": "POST", "headers": {"A": "b"}, "body": {"a": [{"b": null}]},
      "expect": [200, 201], "follow": true}'$$),
  ('an expect of several forms', 'kind, command, args',
    $$'http', 'http://h', '{"expect": ["2xx, 404", "3XX"]}'$$),
  ('an expect that is one number', 'kind, command, args', $$'http', 'http://h', '{"expect": 404}'$$),
  ('parameters of any depth', 'kind, command, args',
    $$'sql', 'select $1, $2, $3', '{"params": [1, null, {"a": [1]}]}'$$),
  ('a member that is null is as good as absent', 'kind, command, args',
    $$'shell', 'x', '{"env": null, "cwd": null}'$$),
  ('env with numbers and booleans', 'kind, command, args',
    $$'shell', 'x', '{"env": {"_A1": 1, "B": true}}'$$),
  ('args of a plugged-in kind are its own', 'kind, args', $$'echo', '{"anything": {"goes": [1]}}'$$),
  ('run_at null is now', 'kind, run_at', $$'noop', null$$),
  ('a run_at long ago', 'kind, run_at', $$'noop', '1970-01-01Z'$$),
  ('a timeout of a millisecond', 'kind, timeout', $$'noop', '1 ms'$$),
  ('a timeout of 365 days', 'kind, timeout', $$'noop', '365 days'$$),
  ('no wait between tries', 'kind, backoff, backoff_max', $$'noop', '0', '0'$$),
  ('the longest times', 'kind, backoff, backoff_max, jitter, misfire_after',
    $$'noop', '365 days', '365 days', '7 days', '365 days'$$),
  ('names and keys of 1000 bytes', 'kind, name, key', $$'noop', repeat('n', 1000), repeat('k', 1000)$$),
  ('labels', 'kind, require', $$'noop', '{"zone": "eu", "disk": "ssd"}'$$),
  ('the largest id', 'kind, id', $$'noop', 9223372036854775807$$),
  ('a negative id', 'kind, id', $$'noop', -9223372036854775808$$);
insert into pgrab.kind values ('echo', 'a plug-in');
select is(r.state, null, g.about || coalesce(': ' || r.message, ''))
from good g, pg_temp.refusal(
  format('insert into pgrab.task (%s) overriding system value values (%s)', g.cols, g.vals)) r order by g.n;

-- ------------------------------------------------------------ what the system writes is not taken from a row
create temporary table forged as select '2000-01-01Z'::timestamptz as old;
insert into pgrab.task (id, kind, owner, created_at, updated_at, due_at, status, version, node_id,
  incarnation, attempt, fire_at, claimed_at, started_at, runs, failures, last_outcome, last_error,
  last_finished_at, run_at) overriding system value
select 1, 'noop', 'mallory', f.old, f.old, f.old, 'running', 99, 7, 8, 50, f.old, f.old, f.old, 3, 4,
  'succeeded', 'x', f.old, now() + interval '1 day' from forged f;
select is((t.shard, t.owner, t.created_at, t.updated_at)::text,
  (pgrab.shard(1), session_user::text, now(), now())::text, 'shard, owner and times are the system''s')
from pgrab.task t where t.id = 1;
select is((t.status, t.version, t.attempt, t.runs, t.failures)::text,
  format('(scheduled,%s,0,0,0)', (date_part('epoch', now()) * 1e6)::bigint),
  'it begins scheduled, at a version that never repeats, without attempts')
from pgrab.task t where t.id = 1;
select is((t.due_at, t.fire_at)::text, (now() + interval '1 day', now() + interval '1 day')::text,
  'it is due at run_at')
from pgrab.task t where t.id = 1;
select is(num_nonnulls(t.node_id, t.incarnation, t.claimed_at, t.started_at, t.last_outcome, t.last_error,
    t.last_finished_at), 0, 'nobody holds it and it has no past')
from pgrab.task t where t.id = 1;
insert into pgrab.task (id, kind) overriding system value values (2, 'noop');
select is((t.run_at, t.due_at, t.fire_at)::text, (n.at, n.at, n.at)::text,
  'without run_at it is due now, a microsecond later')
from (select now() + interval '1 us' as at) n, pgrab.task t where t.id = 2;
insert into pgrab.task (id, kind, paused) overriding system value values (3, 'noop', true);
select is((t.due_at, t.fire_at, t.status)::text, (null::timestamptz, now(), 'scheduled')::text,
  'a paused task has no due_at')
from pgrab.task t where t.id = 3;
-- "paused = false" makes it due again, at the time it was planned for
update pgrab.task set paused = false where id = 3;
select is((t.due_at, t.version)::text, (now(), (date_part('epoch', now()) * 1e6)::bigint + 1)::text,
  'unpaused it is due as planned, with a new version')
from pgrab.task t where t.id = 3;
update pgrab.task set paused = true where id = 3;
select is((t.due_at, t.version)::text,
  (null::timestamptz, (date_part('epoch', now()) * 1e6)::bigint + 2)::text,
  'paused it has no due_at, and a new version')
from pgrab.task t where t.id = 3;

-- ----------------------------------------------------------------------------------------------------- edits
-- puts a task into a state as a node would; none of these columns is watched by the trigger for edits
create function pg_temp.hold(p_id bigint, p_status text) returns void language sql as $$
  update pgrab.task set status = p_status, version = 10, node_id = 1, incarnation = 2, claimed_at = now(),
    attempt = case p_status when 'running' then 1 else 0 end,
    started_at = case p_status when 'running' then now() end
  where id = p_id
$$;
create function pg_temp.fence(p_id bigint) returns text language sql as $$
  select (t.status, t.version, t.node_id, t.incarnation)::text from pgrab.task t where t.id = p_id
$$;
insert into pgrab.task (id, kind, run_at, key) overriding system value
select n, 'noop', now() + interval '1 hour', 'key ' || n from generate_series(10, 30) n;

select pg_temp.hold(10, 'claimed');
update pgrab.task set priority = 1 where id = 10;
select is(pg_temp.fence(10), '(scheduled,11,,)',
  'an edit takes a claimed task from its node, with a new version');
select is((t.due_at, t.claimed_at)::text, (now() + interval '1 hour', null::timestamptz)::text,
  'it stays due when it was')
from pgrab.task t where t.id = 10;
select isnt(t.updated_at, t.created_at, 'an edit is dated') from pgrab.task t where t.id = 10;

select pg_temp.hold(11, 'claimed');
update pgrab.task set paused = true where id = 11;
select is(pg_temp.fence(11), '(scheduled,11,,)', 'a pause takes a claimed task from its node');
select is(t.due_at, null, 'and it is not due') from pgrab.task t where t.id = 11;

select pg_temp.hold(12, 'running');
update pgrab.task set command = 'x', max_attempts = 1, run_at = now() + interval '5 hours' where id = 12;
select is(pg_temp.fence(12), '(running,10,1,2)', 'a task that runs keeps its fence through an edit');
select is((t.command, t.max_attempts, t.attempt)::text, '(x,1,1)', 'the edit is kept')
from pgrab.task t where t.id = 12;
update pgrab.task set paused = true where id = 12;
select is(pg_temp.fence(12), '(running,10,1,2)', 'a pause leaves a running task alone');

select pg_temp.hold(13, 'claimed');
insert into pgrab.task (key, kind, run_at) values ('key 13', 'noop', now() + interval '1 hour')
on conflict (key) do update set kind = excluded.kind, run_at = excluded.run_at, command = excluded.command;
select is(pg_temp.fence(13), '(claimed,10,1,2)', 'an upsert that changes nothing disturbs nothing');
select is(t.updated_at, t.created_at, 'nor is it dated') from pgrab.task t where t.id = 13;
insert into pgrab.task (key, kind, command) values
  ('key 13', 'noop', 'new')
on conflict (key) do update set command = excluded.command;
select is(pg_temp.fence(13), '(scheduled,11,,)', 'an upsert that changes something is an edit');

-- a retry that waits is planned for later than its fire; an edit of something else leaves that wait alone
update pgrab.task set attempt = 2, due_at = now() + interval '9 hours' where id = 14;
update pgrab.task set name = 'waits' where id = 14;
select is((t.due_at, t.attempt)::text, (now() + interval '9 hours', 2)::text,
  'an edit does not shorten a wait')
from pgrab.task t where t.id = 14;
update pgrab.task set run_at = now() + interval '2 hours' where id = 14;
select is((t.due_at, t.fire_at, t.attempt)::text,
  (now() + interval '2 hours', now() + interval '2 hours', 0)::text,
  'a new run_at is a new fire, with all its tries')
from pgrab.task t where t.id = 14;

-- parked
update pgrab.task set status = 'parked', due_at = null, attempt = 3, version = 20, last_error = 'boom'
where id = 15;
update pgrab.task set max_attempts = 9 where id = 15;
select is((t.status, t.due_at, t.attempt)::text, '(parked,,3)', 'an edit does not wake a parked task')
from pgrab.task t where t.id = 15;
update pgrab.task set run_at = now() + interval '1 minute' where id = 15;
select is((t.status, t.due_at, t.attempt)::text, ('scheduled'::text, now() + interval '1 minute', 0)::text,
  'a new run_at does')
from pgrab.task t where t.id = 15;

update pgrab.task set paused = true, run_at = now() + interval '3 hours' where id = 16;
select is((t.due_at, t.fire_at)::text, (null::timestamptz, now() + interval '3 hours')::text,
  'a paused task can be given a new time and stays paused')
from pgrab.task t where t.id = 16;
update pgrab.task set paused = false where id = 16;
select is(t.due_at, now() + interval '3 hours', 'and is due then') from pgrab.task t where t.id = 16;

select pg_temp.hold(17, 'claimed');
delete from pgrab.task where id = 17;
select is(count(*), 0::bigint, 'a claimed task can be deleted') from pgrab.task where id = 17;

-- the invariants of the table hold against everybody
select is(r.state, '23514', 'running without a node')
from pg_temp.refusal('update pgrab.task set status = ''running'' where id = 18') r;
select is(r.state, '23514', 'held without running')
from pg_temp.refusal('update pgrab.task set node_id = 1, incarnation = 1 where id = 18') r;
select is(r.state, '23514', 'parked and due')
from pg_temp.refusal('update pgrab.task set status = ''parked'' where id = 18') r;
select is(r.state, '23514', 'a state that is none')
from pg_temp.refusal('update pgrab.task set status = ''sleeping'' where id = 18') r;

-- ---------------------------------------------------------------------------------------------------- shards
select is(min(pgrab.shard(n)) || '-' || max(pgrab.shard(n)) || ' ' || count(distinct pgrab.shard(n)),
  '0-1023 1024', 'consecutive ids use all 1024 shards')
from generate_series(1, 100000) n;
create function pg_temp.spread(p_ids bigint[]) returns boolean language sql as $$
  -- about a thousand ids per shard: within six standard deviations of it
  select max(abs(c.n - e.each)) < 6 * sqrt(max(e.each))
  from (select cardinality(p_ids) / 1024.0 as each) e, lateral (
    select count(i.id) as n
    from generate_series(0, 1023) s left join unnest(p_ids) i(id) on pgrab.shard(i.id) = s
    group by s) c
$$;
select ok(pg_temp.spread(array(select n from generate_series(1, 200000) n)), 'consecutive ids spread evenly');
select ok(pg_temp.spread(array(select -n from generate_series(1, 200000) n)), 'negative ids spread evenly');
select ok(pg_temp.spread(array(select 9223372036854775807 - n from generate_series(1, 200000) n)),
  'huge ids spread evenly');
select ok(pg_temp.spread(array(select n * 1024 from generate_series(1, 200000) n)),
  'multiples of 1024 spread evenly');
select ok(pg_temp.spread(array(select n::bigint << 32 from generate_series(1, 200000) n)),
  'ids that differ in the upper half only spread evenly');
select is(pgrab.shard(n), pgrab.shard(n), 'the same id, the same shard')
from (select -9223372036854775808 as n) x;

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
  ('backoff_max', '02:00:00'), ('delivery', 'at_most_once'), ('require', '{"a": "b"}');
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

-- ----------------------------------------------------------------------------------------------- args_list()
create temporary table list (n integer generated always as identity, args jsonb, want text);
insert into list (args, want) values
  ('{}', null),
  ('{"cwd": "/tmp"}', '3:cwd,4:/tmp,'),
  ('{"cwd": null}', null),
  ('{"argv": ["a", "", "b c"]}', '4:argv,1:a,4:argv,0:,4:argv,3:b c,'),
  ('{"argv": []}', null),
  ('{"env": {"A": "1", "B": "x=y"}}', '3:env,3:A=1,3:env,5:B=x=y,'),
  ('{"env": {"A": null}}', null),
  ('{"params": [1, true, "x", null, [1, 2], {"a": 1}]}',
    '6:params,1:1,6:params,4:true,6:params,1:x,11:params:null,0:,6:params,6:[1, 2],6:params,8:{"a": 1},'),
  ('{"body": {"a": [1]}}', '4:body,10:{"a": [1]},'),
  ('{"body": "text"}', '4:body,4:text,'),
  ('{"follow": true, "expect": [200, "404"]}', '6:expect,3:200,6:expect,3:404,6:follow,4:true,'),
  ('{"stdin": "é,\n1:x,"}', E'5:stdin,8:é,\n1:x,,'),
  ('{"payload": ""}', '7:payload,0:,');
select is(pgrab_internal.args_list(l.args), l.want, 'args_list ' || l.args::text) from list l order by l.n;

-- ----------------------------------------------------------------------------------------------------- waits
select is(pgrab_internal.retry_wait('5 s', '1 hour', 1) between '4.5 s' and '5.5 s', true,
  'the first wait is the backoff, +-10 %');
select is(pgrab_internal.retry_wait('5 s', '1 hour', 4) between '36 s' and '44 s', true, 'then it doubles');
select is(pgrab_internal.retry_wait('5 s', '1 hour', 1000) between '54 min' and '66 min', true,
  'up to backoff_max');
select is(pgrab_internal.retry_wait('0', '0', 3), '0', 'no backoff, no wait');

-- -------------------------------------------------------------------------------- everything says what it is
select is((select string_agg(c.relname, ', ') from pg_class c
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p', 'v')
      and obj_description(c.oid, 'pg_class') is null),
  null, 'every table and view has a comment');
select is((select string_agg(c.relname || '.' || a.attname, ', ')
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
      and col_description(c.oid, a.attnum) is null),
  null, 'every column has a comment');
select is((select string_agg(p.proname, ', ') from pg_proc p
    where p.pronamespace = 'pgrab'::regnamespace and obj_description(p.oid, 'pg_proc') is null),
  null, 'every function has a comment');
select isnt(obj_description('pgrab'::regnamespace, 'pg_namespace'), null, 'the schema has a comment');
select is((select string_agg(c.relname, ', ') from pg_class c join pg_index i on i.indexrelid = c.oid
    where c.relnamespace = 'pgrab'::regnamespace and not c.relispartition
      and not exists (select from pg_constraint k where k.conindid = c.oid)
      and obj_description(c.oid, 'pg_class') is null),
  null, 'every index that is not a constraint has a comment');

select * from finish();
rollback;
