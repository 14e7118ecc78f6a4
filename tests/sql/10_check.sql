-- What is refused of a task, with what words, and what is not.
begin;
select plan(265);

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
  ('kind', '''ruby''', 'The kinds are: batch, exec, http, noop, notify, shell, sql.', 'kind, command',
    $$'ruby', 'x'$$),
  ('kind', '''''', 'The kinds are:', 'kind', $$''$$),
  ('kind', 'null', 'Leave it out', 'kind, command', $$null, 'x'$$),
  ('kind', '''SQL''', 'The kinds are:', 'kind, command', $$'SQL', 'x'$$),
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
  ('misfire_after', '''5965231 years 8 mons -2147483400 days +00:02:00''', 'Between 1 s and 365 days',
    'kind, misfire_after', $$'noop', '71582780 months -2147483400 days 2 min'$$),
  ('keep', '''-100000000 days +2400000000:00:00''', 'Between 0 and 3650 days', 'kind, keep',
    $$'noop', '-100000000 days 2400000000 hours'$$),
  ('starts_at', '''294276-12-31T23:59:59+00:00''', 'in the years 1 to 9999',
    'kind, schedule, starts_at, run_at', $$'noop', '@hourly', '294276-12-31 23:59:59Z', now()$$),
  ('args', '''[]''', 'args must be a JSON object', 'kind, args', $$'noop', '[]'$$),
  ('args', '''null''', 'args must be a JSON object', 'kind, args', $$'noop', 'null'$$),
  ('args', '''"x"''', 'args must be a JSON object', 'kind, command, args', $$'sql', 'x', '"x"'$$),
  ('args', '''1''', 'args must be a JSON object', 'kind, args', $$'noop', '1'$$),
  ('args', '''1048590 bytes long''', '1 MiB', 'kind, command, args',
    $$'sql', 'x', jsonb_build_object('params', repeat('x', 1048576))$$),
  ('args', '''a''', 'takes no args', 'kind, args', $$'noop', '{"a": 1}'$$),
  ('args', '''parms''', 'takes: steps, params', 'kind, command, args', $$'sql', 'x', '{"parms": []}'$$),
  ('args', '''argv''', 'takes: cwd, env, stdin, umask, limits', 'kind, command, args',
    $$'shell', 'x', '{"argv": []}'$$),
  ('args', '''params''', 'takes: cwd, env, argv, stdin, umask, limits', 'kind, command, args',
    $$'exec', '/bin/x', '{"params": []}'$$),
  ('args', '''header''', 'takes: body, await, expect, follow, method, headers', 'kind, command, args',
    $$'http', 'http://h', '{"header": {}}'$$),
  ('args', '''body''', 'takes: payload', 'kind, command, args', $$'notify', 'c', '{"body": ""}'$$),
  ('args', '''{"params": {}}''', 'params must be a JSON array', 'kind, command, args',
    $$'sql', 'x', '{"params": {}}'$$),
  ('args', '''{"params": "x"}''', 'params must be a JSON array', 'kind, command, args',
    $$'sql', 'x', '{"params": "x"}'$$),
  ('args', '''{"steps": {}}''', 'steps is an array of', 'kind, args', $$'sql', '{"steps": {}}'$$),
  ('args', '''{"steps": []}''', 'at least one', 'kind, args', $$'sql', '{"steps": []}'$$),
  ('args', '''{"steps": ["x"]}''', 'A step is {"name"', 'kind, args', $$'sql', '{"steps": ["x"]}'$$),
  ('args', '''{"steps": [{"name": "a"}]}''', 'A step is {"name"', 'kind, args',
    $$'sql', '{"steps": [{"name": "a"}]}'$$),
  ('args', '''{"steps": [{"name": 1, "command": "x"}]}''', 'A step is {"name"', 'kind, args',
    $$'sql', '{"steps": [{"name": 1, "command": "x"}]}'$$),
  ('args', '''{"steps": [{"a": 1, "name": "a", "command": "x"}]}''', 'A step is {"name"', 'kind, args',
    $$'sql', '{"steps": [{"name": "a", "command": "x", "a": 1}]}'$$),
  ('args', '''{"steps": [{"name": "", "command": "x"}]}''', '1 to 200 bytes', 'kind, args',
    $$'sql', '{"steps": [{"name": "", "command": "x"}]}'$$),
  ('args', '''{"steps": [{"name": "a", "command": " "}]}''', 'one or more SQL statements', 'kind, args',
    $$'sql', '{"steps": [{"name": "a", "command": " "}]}'$$),
  ('args', '''{"steps": [{"name": "a", "command": "select {{parent_output}}"}]}''', 'not filled into SQL',
    'kind, args', $$'sql', '{"steps": [{"name": "a", "command": "select {{parent_output}}"}]}'$$),
  ('args', '''{"steps": [{"name": "a", "command": "x"}]}''', 'Two steps have this name', 'kind, args',
    $$'sql', '{"steps": [{"name": "a", "command": "x"}, {"name": "b", "command": "x"},
      {"name": "a", "command": "x"}]}'$$),
  ('args', '''{"params": []}''', 'steps goes with nothing else', 'kind, args',
    $$'sql', '{"steps": [{"name": "a", "command": "x"}], "params": []}'$$),
  ('args', '''steps of 1001 values''', 'at most 1000', 'kind, args',
    $$'sql', (
      select jsonb_build_object('steps', jsonb_agg(jsonb_build_object('name', g::text, 'command', 'x')))
      from generate_series(1, 1001) g)$$),
  ('command', '''x''', 'has no command of its own', 'kind, command, args',
    $$'sql', 'x', '{"steps": [{"name": "a", "command": "x"}]}'$$),
  ('args', '''steps''', 'takes: cwd', 'kind, command, args', $$'shell', 'x', '{"steps": []}'$$),
  ('args', '''{"env": ["A=1"]}''', 'env must be a JSON object', 'kind, command, args',
    $$'shell', 'x', '{"env": ["A=1"]}'$$),
  ('args', '''{"stdin": 1}''', 'stdin must be a JSON string', 'kind, command, args',
    $$'shell', 'x', '{"stdin": 1}'$$),
  ('args', '''{"umask": "999"}''', 'an octal number', 'kind, command, args',
    $$'shell', 'x', '{"umask": "999"}'$$),
  ('args', '''{"cwd": true}''', 'cwd must be a JSON string', 'kind, command, args',
    $$'exec', '/x', '{"cwd": true}'$$),
  ('args', '''{"argv": "a b"}''', 'argv must be a JSON array', 'kind, command, args',
    $$'exec', '/x', '{"argv": "a b"}'$$),
  ('args', '''{"method": 1}''', 'method must be a JSON string', 'kind, command, args',
    $$'http', 'http://h', '{"method": 1}'$$),
  ('args', '''{"headers": []}''', 'headers must be a JSON object', 'kind, command, args',
    $$'http', 'http://h', '{"headers": []}'$$),
  ('args', '''{"body": 1}''', 'body must be a JSON string or object or array', 'kind, command, args',
    $$'http', 'http://h', '{"body": 1}'$$),
  ('args', '''{"expect": {}}''', 'expect must be a JSON array or string or number', 'kind, command, args',
    $$'http', 'http://h', '{"expect": {}}'$$),
  ('args', '''{"expect": 99}''', 'expect is a status such as 204', 'kind, command, args',
    $$'http', 'http://h', '{"expect": 99}'$$),
  ('args', '''{"expect": "200-299"}''', 'expect is a status such as 204', 'kind, command, args',
    $$'http', 'http://h', '{"expect": "200-299"}'$$),
  ('args', '''{"expect": ["2xx", "6xx"]}''', 'expect is a status such as 204', 'kind, command, args',
    $$'http', 'http://h', '{"expect": ["2xx", "6xx"]}'$$),
  ('args', '''{"expect": "' || repeat('200,', 33) || '"}''', 'at most 32', 'kind, command, args',
    $$'http', 'http://h', jsonb_build_object('expect', repeat('200,', 33))$$),
  ('args', '''{"follow": "yes"}''', 'follow must be a JSON boolean', 'kind, command, args',
    $$'http', 'http://h', '{"follow": "yes"}'$$),
  ('args', '''{"payload": {}}''', 'payload must be a JSON string', 'kind, command, args',
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
  ('max_attempts', '''0''', '1 to 1000', 'kind, max_attempts', $$'noop', 0$$),
  ('max_attempts', '''1001''', '1 to 1000', 'kind, max_attempts', $$'noop', 1001$$),
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

-- the invariants of the table hold against everybody
select is(r.state, '23514', 'running without a node')
from pg_temp.refusal('update pgrab.task set status = ''running'' where id = 1000000') r;
select is(r.state, '23514', 'held without running')
from pg_temp.refusal('update pgrab.task set node_id = 1, incarnation = 1 where id = 1000000') r;
select is(r.state, '23514', 'parked and due')
from pg_temp.refusal('update pgrab.task set status = ''parked'' where id = 1000000') r;
select is(r.state, '23514', 'a state that is none')
from pg_temp.refusal('update pgrab.task set status = ''sleeping'' where id = 1000000') r;

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
  ('steps that are null', 'kind, command, args', $$'sql', 'x', '{"steps": null}'$$),
  ('steps', 'kind, args', $$'sql', '{"params": null, "steps": [{"name": "a", "command": "x"},
    {"name": "b", "command": "x"}]}'$$),
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

-- What has announced no schema is let in without a look at each row, but not whatever it is.
create temporary table free (n integer generated always as identity, col text, cols text, vals text);
insert into free (col, cols, vals) values
  ('args', 'kind, args', $$'echo', '[]'$$), ('args', 'kind, args', $$'echo', '"x"'$$),
  ('args', 'kind, args', $$'echo', jsonb_build_object('a', repeat('x', 1048576))$$),
  ('timeout', 'kind, args, timeout', $$'echo', '{"a": 1}', '0'$$),
  ('command', 'kind, args, command', $$'echo', '{}', ' '$$),
  ('command', 'kind, args, command', $$'sql', '{"params": [1]}', ' '$$),
  ('args', 'kind, args, command', $$'sql', '{"params": [1], "more": 1}', 'x'$$),
  ('args', 'kind, args, command',
    $$'sql', jsonb_build_object('params', jsonb_build_array(repeat('x', 1048576))), 'x'$$),
  ('args', 'kind, args', $$'echo', '{"a": 1}'), ('noop', '{}'), ('echo', '[1]'$$),
  ('args', 'kind, args', $$'echo', '{}'), ('strict', '{"b": 1}'$$);
insert into pgrab.kind (kind, summary, schema) values ('strict', '', '{"required": ["a"]}');
select is(r.state || ' ' || r.col, '22023 ' || f.col, left(f.vals, 60) || ': refused')
from free f, pg_temp.refusal(format('insert into pgrab.task (%s) values (%s)', f.cols, f.vals)) r
order by f.n;

select * from finish();
rollback;
