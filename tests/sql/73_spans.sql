-- Runs as spans.
begin;
select plan(19);
\set parent '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner, name, key,
  node, incarnation, fire_at, claimed_at, started_at, chain_id, exit_code, error, traceparent)
select i, v, now() - interval '1 minute' + at * interval '1 s', now() - interval '70 s', attempt, outcome,
  'shell', 'me', name, key, 'n1', 5, now() - interval '1 hour', now() - interval '69 s',
  now() - interval '1 minute' + (at - 2) * interval '1 s', chain, code, error, trace
from (values
  (1, 10, 1, 1, 'failed', 'bill', 'k', null::bigint, 3, 'exit code 3', :'parent'),
  (1, 12, 5, 2, 'succeeded', 'bill', 'k', null, 0, null, :'parent'),
  (2, 20, 2, 1, 'succeeded', null, null, null, null, null, null),
  (2, 22, 3, 2, 'waited', null, null, null, null, null, null),
  (3, 30, 4, 1, 'succeeded', null, 'c', 7, null, null, null),
  (4, 40, 4, 1, 'lost', null, null, 7, null, null, null),
  (5, 50, 6, 1, 'skipped', null, null, null, null, null, null),
  (6, 60, 6, 1, 'succeeded', null, null, null, null, null,
    '00-11111111111111111111111111111111-2222222222222222-02'),
  (7, 70, 58, 1, 'succeeded', null, null, null, null, null, null)
) x(i, v, at, attempt, outcome, name, key, chain, code, error, trace);

create temporary table slice as
select * from pgrab_tool.spans(now() - interval '2 minutes', 0, 0, '10 minutes', 100);
create temporary view span as
select e.span ->> 'spanId' as id, e.span ->> 'traceId' as trace, e.span ->> 'parentSpanId' as parent,
  (select (a ->> 'value')::jsonb ->> 'intValue' from jsonb_array_elements(e.span -> 'attributes') a
    where a ->> 'key' = 'pgrab.task.id')::bigint as task, (e.span ->> 'kind')::int as kind, e.span, e.n
from slice s cross join lateral jsonb_array_elements(('[' || s.spans || ']')::jsonb)
  with ordinality e(span, n);

select is((select concat_ws(' ', id, version, dropped, runs) from slice), '6 60 0 6',
  'as far as what ended five seconds ago; what was not run or is not sampled is none');
select is((select string_agg(task || case kind when 1 then ' waits' else '' end, ', ' order by n) from span),
  '1 waits, 1, 2 waits, 2, 2, 3 waits, 3, 4 waits, 4, 1', 'in order; a first attempt has waited');
select is((select span - '{attributes,startTimeUnixNano,endTimeUnixNano}'::text[] from span where n = 2),
  jsonb_build_object('traceId', '4bf92f3577b34da6a3ce929d0e0e4736', 'parentSpanId', '00f067aa0ba902b7',
    'spanId', pgrab_internal.span_of(1, 10), 'name', 'bill', 'kind', 5,
    'status', '{"code": 2, "message": "exit code 3"}'::jsonb), 'one that failed');
select is((select string_agg(a ->> 'key' || '=' || coalesce(a -> 'value' ->> 'intValue' || 'i',
      a -> 'value' ->> 'stringValue'), ' ' order by a ->> 'key')
    from span, jsonb_array_elements(span -> 'attributes') a
    where n = 2 and a ->> 'key' <> 'pgrab.fire_at'),
  'pgrab.attempt=1i pgrab.exit_code=3i pgrab.fence=5-10 pgrab.kind=shell pgrab.node=n1 pgrab.outcome=failed '
    'pgrab.owner=me pgrab.task.id=1i pgrab.task.key=k pgrab.task.name=bill', 'and what it says of itself');
select is((select span -> 'links' from span where task = 1 and kind = 5 order by n desc limit 1),
  jsonb_build_array(jsonb_build_object('traceId', '4bf92f3577b34da6a3ce929d0e0e4736',
    'spanId', pgrab_internal.span_of(1, 10))), 'a second attempt is linked to the first');
select is((select span ? 'status' from span where task = 1 and kind = 5 order by n desc limit 1), false,
  'a success has no status');
select is((select (span ->> 'endTimeUnixNano')::numeric - (span ->> 'startTimeUnixNano')::numeric
  from span where n = 2), 2000000000::numeric, 'it took two seconds');
select is((select (span ->> 'endTimeUnixNano')::numeric - (span ->> 'startTimeUnixNano')::numeric
  from span where n = 1), 9000000000::numeric, 'and waited nine, from its INSERT');
select is((select jsonb_typeof(span -> 'startTimeUnixNano') from span where n = 2), 'string',
  '64-bit integers are strings');
select is((select span ->> 'startTimeUnixNano' ~ '^[0-9]{19}$' from span where n = 2), true,
  'in nanoseconds');
select is((select array[bool_and(id ~ '^[0-9a-f]{16}$'), bool_and(trace ~ '^[0-9a-f]{32}$'),
  count(distinct id) = count(*)] from span), '{t,t,t}', 'the numbers are hexadecimal, and different');

-- traces of their own
select is((select count(distinct trace) from span where task = 2), 1::bigint,
  'the attempts of a fire are in one trace');
select is((select count(distinct trace) from span where task in (3, 4)), 1::bigint,
  'and so are the links of a run of a chain');
select is((select count(distinct trace) from span), 3::bigint, 'others are in others');
select is((select bool_or(span ? 'parentSpanId') from span where task <> 1), false, 'without a parent');

-- slices
select is((select concat_ws(' ', a.id, a.version, b.id, b.version) from
    pgrab_tool.spans(now() - interval '2 minutes', 0, 0, '10 minutes', 4) a
    cross join lateral pgrab_tool.spans(a.at, a.id, a.version, '10 minutes', 1) b),
  '3 30 4 40', 'a slice begins where the last one ended, also within one moment');
select is((select concat_ws(' ', id, dropped, runs) from
    pgrab_tool.spans(now() - interval '2 minutes', 0, 0, '52 s', 100)), '6 3 3',
  'what is too old is dropped, and counted');
select is((select concat_ws(' ', s.at <= now() - interval '4 s', id, version, dropped, runs, spans is null)
  from pgrab_tool.spans(null, null, null, '1 minute', 100) s), 't 0 0 0 0 t', 'it begins with what ends now');
select is((select concat_ws(' ', s.at = now(), id, version, runs)
  from pgrab_tool.spans(now(), 1, 2, '1 minute', 100) s), 't 1 2 0', 'and stays where nothing has ended');

select * from finish();
rollback;
