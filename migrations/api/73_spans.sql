-- What `pgrab serve --otlp` sends to a collector: runs as spans, in the JSON encoding of OTLP.  There numbers
-- of traces and spans are hexadecimal, 64-bit integers are strings, and enumerations are numbers.

create or replace function pgrab_internal.otlp_nanos(p_at timestamptz) returns text
language sql immutable parallel safe
return trunc(extract(epoch from p_at) * 1000000000)::text;
comment on function pgrab_internal.otlp_nanos is 'A time as OTLP writes it.';

-- Numbers are integers.
create or replace function pgrab_internal.otlp_attributes(p_facts jsonb) returns jsonb
language sql immutable parallel safe
begin atomic
  select coalesce(jsonb_agg(jsonb_build_object('key', f.key, 'value', jsonb_build_object(
    case jsonb_typeof(f.value) when 'number' then 'intValue' else 'stringValue' end, f.value #>> '{}'))
    order by f.key), '[]')
  from jsonb_each(jsonb_strip_nulls(p_facts)) f;
end;
comment on function pgrab_internal.otlp_attributes is 'Facts as OTLP writes them.';

-- An expression, which PostgreSQL inlines: then it does not read what the run has printed.
create or replace function pgrab_internal.span(r pgrab_internal.run, p_trace text, p_before text)
returns jsonb
language sql stable
return jsonb_strip_nulls(jsonb_build_object(
  'traceId', p_trace, 'spanId', pgrab_internal.span_of(r.task_id, r.version),
  'parentSpanId', substr(r.traceparent, 37, 16), 'name', coalesce(r.name, r.key, r.kind),
  'kind', 5, -- consumer
  'startTimeUnixNano', pgrab_internal.otlp_nanos(least(
    coalesce(r.started_at, r.claimed_at, r.finished_at), r.finished_at)),
  'endTimeUnixNano', pgrab_internal.otlp_nanos(r.finished_at),
  'attributes', pgrab_internal.otlp_attributes(jsonb_build_object(
    'pgrab.task.id', r.task_id, 'pgrab.task.key', r.key, 'pgrab.task.name', r.name, 'pgrab.kind', r.kind,
    'pgrab.owner', r.owner, 'pgrab.node', r.node, 'pgrab.attempt', r.attempt, 'pgrab.outcome', r.outcome,
    'pgrab.fire_at', to_json(r.fire_at) #>> '{}', 'pgrab.fence', r.incarnation || '-' || r.version,
    'pgrab.chain_run', r.chain_id, 'pgrab.exit_code', r.exit_code,
    'pgrab.cpu_ms', round(r.cpu_seconds * 1000), 'pgrab.memory_bytes', r.memory_bytes)),
  'links', case when p_before is not null
    then jsonb_build_array(jsonb_build_object('traceId', p_trace, 'spanId', p_before)) end,
  'status', case when pgrab_tool.run_is_failure(r.outcome)
    then jsonb_build_object('code', 2, 'message', coalesce(r.error, '')) end)); -- error
comment on function pgrab_internal.span is 'A run as a span. p_before: the span of the attempt before it.';

-- A run that belongs to no trace is in one of its own: with the other attempts of its fire, and with the
-- links of its run of a chain; `home` tells this database from others.  The wait for its start is a span from
-- the time at which it could begin, so only of a first attempt: what comes before a further one is its
-- backoff.
-- In the order of the history, behind the run that p_at, p_id and p_version name; a finish may be committed a
-- little later than its time says, so the last five seconds are left for the next call.  What ended longer
-- than p_behind before that is counted, and left out.  So is a trace that its program does not sample, which
-- is the last bit of the flags.
create or replace function pgrab_tool.spans(
  p_at timestamptz, p_id bigint, p_version bigint, p_behind interval, p_most integer,
  out at timestamptz, out id bigint, out version bigint, out dropped bigint, out runs bigint,
  out spans text)
returns record
language sql stable
begin atomic
  with slice as materialized (
    select r.finished_at, r.task_id, r.version,
      r.finished_at < statement_timestamp() - interval '5 s' - p_behind as late
    from pgrab.run r
    where r.finished_at >= p_at and (r.finished_at, r.task_id, r.version) > (p_at, p_id, p_version)
      and r.finished_at <= statement_timestamp() - interval '5 s'
    order by r.finished_at, r.task_id, r.version limit p_most),
  last as (
    select s.finished_at, s.task_id, s.version from slice s
    order by s.finished_at desc, s.task_id desc, s.version desc limit 1),
  made as (
    select concat_ws(',', case when r.attempt = 1 and w.since < coalesce(r.started_at, r.claimed_at)
        then jsonb_strip_nulls(jsonb_build_object(
          'traceId', t.trace, 'spanId', pgrab_internal.span_of(r.task_id, -r.version),
          'parentSpanId', substr(r.traceparent, 37, 16), 'name', coalesce(r.name, r.key, r.kind) || ' waits',
          'kind', 1, -- internal
          'startTimeUnixNano', pgrab_internal.otlp_nanos(w.since),
          'endTimeUnixNano', pgrab_internal.otlp_nanos(coalesce(r.started_at, r.claimed_at)),
          'attributes', pgrab_internal.otlp_attributes(jsonb_build_object('pgrab.task.id', r.task_id)))) end,
      pgrab_internal.span(row(r.*)::pgrab_internal.run, t.trace, b.span)) as made
    from slice s
      join pgrab.run r
        on r.finished_at = s.finished_at and r.task_id = s.task_id and r.version = s.version
      cross join (select c.system_id || ' ' || c.database || ' ' as home from pgrab.cluster c) c
      cross join lateral (
        select case when r.traceparent is not null then substr(r.traceparent, 4, 32)
          else encode(substring(sha256(convert_to(coalesce(c.home, '') || case when r.chain_id is not null
            then 'chain ' || r.chain_id else r.task_id || ' ' || (r.fire_at at time zone 'UTC') end, 'UTF8'))
            from 1 for 16), 'hex') end as trace) t
      cross join lateral (select greatest(r.fire_at, r.created_at) as since) w
      left join lateral ( -- the attempt before this one, within a day
        select pgrab_internal.span_of(r.task_id, x.version) as span
        from (
          select y.version, y.fire_at from pgrab.run y
          where r.attempt > 1 and y.task_id = r.task_id and y.finished_at <= r.finished_at
            and y.finished_at > r.finished_at - interval '1 day' offset 0) x
        where x.fire_at = r.fire_at and x.version < r.version
        order by x.version desc limit 1) b on true
    where not s.late and r.outcome not in ('skipped', 'missed')
      and coalesce(strpos('13579bdf', right(r.traceparent, 1)) > 0, true))
  select coalesce(l.finished_at, p_at, statement_timestamp() - interval '5 s'), coalesce(l.task_id, p_id, 0),
    coalesce(l.version, p_version, 0), (select count(*) from slice s where s.late), m.n, m.spans
  from (select count(*) as n, string_agg(d.made, ',') as spans from made d) m left join last l on true;
end;
comment on function pgrab_tool.spans is
  'The next p_most runs as spans, separated by commas, and how far that is; p_at null: only where to begin.';
