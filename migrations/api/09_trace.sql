-- Traces: a task that is inserted with a W3C trace context (its column traceparent) hands one on to what it
-- runs, in the same trace, with its run as the parent.  A run's number as a span is made of its task and its
-- version, so that nobody has to write it down: the node says it to what it runs, `pgrab serve --otlp` to the
-- collector.

-- Version 00 is the only one there is.  Counts in the pattern (such as {32}) would take ten times as long.
create or replace function pgrab_internal.traceparent_fine(p_traceparent text) returns boolean
language sql immutable parallel safe
return p_traceparent like '00-________________________________-________________-__'
  and p_traceparent ~ '^00-0*[1-9a-f][0-9a-f]*-0*[1-9a-f][0-9a-f]*-[0-9a-f]+$';
comment on function pgrab_internal.traceparent_fine is 'Is this a trace context as the W3C defines it?';

create or replace function pgrab_internal.span_of(p_id bigint, p_version bigint) returns text
language sql immutable parallel safe
return encode(int8send(hashint8extended(p_id, p_version)), 'hex');
comment on function pgrab_internal.span_of is
  'The number of a run as a span: 16 hexadecimal digits, others for each run.';

create or replace function pgrab_internal.traceparent_of(p_traceparent text, p_id bigint, p_version bigint)
returns text
language sql immutable parallel safe
return left(p_traceparent, 36) || pgrab_internal.span_of(p_id, p_version) || right(p_traceparent, 3);
comment on function pgrab_internal.traceparent_of is
  'The trace context that a run hands on: that of its task, with the run as the parent. Null: it has none.';

-- For the transaction of a sql run: what it inserts belongs to the same trace.
create or replace function pgrab_internal.trace_set(p_traceparent text, p_id bigint, p_version bigint)
returns text
language sql
return case when p_traceparent is not null then set_config('pgrab.traceparent',
  pgrab_internal.traceparent_of(p_traceparent, p_id, p_version), true) end;
comment on function pgrab_internal.trace_set is 'Makes the trace context of a run that of the transaction.';
