-- Answers that come later: the receiver of a request has accepted it (kind http, args.await), and calls back
-- when it is done.
--
-- Meanwhile the task is `waiting`, has no place under a limit, and nobody holds it; but it keeps the name of
-- its run, (incarnation, version), by which the answer finds it, and by which nothing else does.  A row of
-- pgrab.wait says until when.  What ends it is what ends every run: finish_many().  So an answer that is
-- quicker than the node, which has yet to record that the request was accepted, ends the run as well, and the
-- node finds that it has ended.
--
-- The right to answer is the token that went with the request: a keyed hash (HMAC-SHA-256) of the task and
-- the run.  Nothing is stored for it.  The key never leaves this database.

-- HMAC needs the key XOR 0x36 and XOR 0x5c, each 64 bytes long; that is how it is kept: inner, then outer.
create or replace function pgrab_internal.answer_key_make() returns text
language sql volatile as $$
  select string_agg(lpad(to_hex(coalesce(get_byte(k.key, i.i), 0) # p.pad), 2, '0'), '' order by p.n, i.i)
  from (select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))
      || decode(repeat('00', 32), 'hex') as key) k
    cross join (values (1, 54), (2, 92)) p(n, pad) cross join generate_series(0, 63) i(i)
$$;
comment on function pgrab_internal.answer_key_make is 'A new key for the tokens of callbacks.';
insert into pgrab_internal.key (name, value)
values ('answer', pgrab_internal.answer_key_make()) on conflict do nothing;

create or replace function pgrab_internal.answer_mac(
  p_key text, p_id bigint, p_version bigint, p_incarnation bigint) returns bytea
language sql immutable
return sha256(decode(right(p_key, 128), 'hex') || sha256(decode(left(p_key, 128), 'hex')
  || 'answer'::bytea || int8send(p_id) || int8send(p_version) || int8send(p_incarnation)));
comment on function pgrab_internal.answer_mac is 'HMAC-SHA-256 of a run, all of fixed length.';

-- Serves: run_columns.inc.
create or replace function pgrab_internal.answer_token(p_id bigint, p_version bigint, p_incarnation bigint)
returns text
language sql stable as $$
  select p_version || '.' || p_incarnation || '.'
    || encode(pgrab_internal.answer_mac(k.value, p_id, p_version, p_incarnation), 'hex')
  from pgrab_internal.key k where k.name = 'answer'
$$;
comment on function pgrab_internal.answer_token is
  'The token with which the receiver of a request answers: the run, and its keyed hash.';

create type pgrab_internal.answer_run as (version bigint, incarnation bigint, before boolean);
comment on type pgrab_internal.answer_run is
  'The run that a token is for. before: it is signed with the key that was replaced.';

-- Two hashes are compared by their hashes: how long that takes says nothing of what would have been right.
create or replace function pgrab_internal.answer_check(p_id bigint, p_token text)
returns pgrab_internal.answer_run
language plpgsql stable as $$
declare
  c_part constant text[] := case when length(p_token) <= 110
    then regexp_match(p_token, '^([1-9][0-9]{0,17})[.](0|-?[1-9][0-9]{0,18})[.]([0-9a-f]{64})$') end;
  r pgrab_internal.answer_run;
begin
  if c_part[2]::numeric between -9223372036854775808 and 9223372036854775807 then
    select c_part[1], c_part[2], k.name <> 'answer' into r
    from pgrab_internal.key k
    where k.name in ('answer', 'answer_before')
      and sha256(k.value::bytea || decode(c_part[3], 'hex')) = sha256(k.value::bytea
        || pgrab_internal.answer_mac(k.value, p_id, c_part[1]::bigint, c_part[2]::bigint));
  end if;
  if r.version is null then
    perform pgrab_internal.answer_forged(p_id);
  end if;
  return r;
end $$;
comment on function pgrab_internal.answer_check is
  'The run that a token of a task is for; refuses a token that is not one.';

create or replace function pgrab_internal.answer_forged(p_id bigint) returns void
language plpgsql as $$
begin
  raise exception using errcode = '28000',
    message = format('this is no token for an answer to task %s', p_id),
    hint = 'It is the end of the address in the header Pgrab-Callback of the request.';
end $$;
comment on function pgrab_internal.answer_forged is 'Refuses a token.';

create or replace function pgrab_internal.answer_refuse(p_key text, p_value jsonb, p_hint text) returns void
language plpgsql as $$
begin
  raise exception using errcode = '22023', hint = p_hint,
    message = format('%s of an answer cannot be %s', p_key, coalesce(left(p_value::text, 100), 'missing'));
end $$;
comment on function pgrab_internal.answer_refuse is 'Refuses a part of an answer.';

create or replace function pgrab_internal.answer_valid(p_answer jsonb) returns void
language plpgsql as $$
declare
  c_beat constant boolean := not p_answer ? 'outcome';
  v_key text;
begin
  if jsonb_typeof(p_answer) is distinct from 'object' then
    perform pgrab_internal.answer_refuse('the whole', p_answer, 'It is a JSON object: {"outcome": '
      '"succeeded", "output": ...}, {"outcome": "failed", "error": "..."}, or {"progress": 40}.');
  end if;
  select k into v_key from jsonb_object_keys(p_answer) k
  where k <> all (case when c_beat then '{progress,text}' else '{outcome,output,error}' end::text[]) limit 1;
  if v_key is not null then
    perform pgrab_internal.answer_refuse(left(quote_literal(v_key), 40), p_answer -> v_key,
      'An answer has outcome, output, error; a beat has progress, text.');
  elsif not c_beat and p_answer -> 'outcome' not in ('"succeeded"', '"failed"') then
    perform pgrab_internal.answer_refuse('outcome', p_answer -> 'outcome', 'It is "succeeded" or "failed".');
  elsif p_answer ? 'error' and (jsonb_typeof(p_answer -> 'error') not in ('string', 'null')
      or p_answer ->> 'outcome' = 'succeeded' and p_answer ->> 'error' is not null) then
    perform pgrab_internal.answer_refuse('error', p_answer -> 'error',
      'It is a string, for the outcome "failed".');
  elsif (case jsonb_typeof(p_answer -> 'progress')
      when 'number' then (p_answer -> 'progress')::numeric not between 0 and 100
      else jsonb_typeof(p_answer -> 'progress') <> 'null' end) then
    perform pgrab_internal.answer_refuse('progress', p_answer -> 'progress', 'It is a number from 0 to 100.');
  elsif jsonb_typeof(p_answer -> 'text') not in ('string', 'null') then
    perform pgrab_internal.answer_refuse('text', p_answer -> 'text', 'It is a string.');
  end if;
end $$;
comment on function pgrab_internal.answer_valid is 'Refuses what is no answer and no beat.';

create or replace function pgrab_internal.answer_text(p_value jsonb) returns text
language sql immutable
return regexp_replace(case when jsonb_typeof(p_value) <> 'null' then p_value #>> '{}' end,
  '[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]', '?', 'g');
comment on function pgrab_internal.answer_text is
  'The output of an answer: a string as it is, anything else as JSON; without what controls a terminal.';

-- The time since the start is given because the plain finish takes it from here.  The output is cut as that
-- of any run: 64 KiB, head and tail (src/base/outbuf.h).  A character has at most four bytes.
create or replace function pgrab_internal.answer_end(t pgrab_internal.task, p_outcome text, p_error text,
  p_output text default null) returns pgrab_internal.moved[]
language plpgsql as $$
declare
  c_cut constant boolean := octet_length(p_output) > 65536;
begin
  if c_cut then
    p_output := left(p_output, 8000) || format(E'\n... %s bytes dropped ...\n',
      octet_length(p_output) - octet_length(left(p_output, 8000)) - octet_length(right(p_output, 8000)))
      || right(p_output, 8000);
  end if;
  return pgrab_internal.finish_many((array[t.id], array[t.version], array[t.incarnation],
    array[(date_part('epoch', statement_timestamp() - t.started_at) * 1e6)::bigint], array[0]::bigint[],
    array[p_outcome], array[null]::integer[], array[p_output], array[c_cut], array[p_error],
    null, null)::pgrab_internal.outcomes, t.node_id, pgrab_internal.node_of(t.node_id));
end $$;
comment on function pgrab_internal.answer_end is
  'Ends the run of a task with its answer. The caller has locked its row.';

create or replace function pgrab_internal.answer_late(p_id bigint) returns void
language plpgsql as $$
begin
  raise exception using errcode = '55000', message = format('this run of task %s is over', p_id),
    hint = 'It was answered, timed out, or was cancelled; or its node died before it had recorded that the '
      'request was accepted, and it is tried again with another token. Nothing has changed.';
end $$;
comment on function pgrab_internal.answer_late is 'Refuses an answer to a run that is over.';

create or replace function pgrab_internal.resolve(p_id bigint, p_token text, p_answer jsonb, p_by text)
returns text
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  r constant pgrab_internal.answer_run := case when p_token is not null
    then pgrab_internal.answer_check(p_id, p_token) end;
  t pgrab_internal.task;
  v_moved pgrab_internal.moved[];
begin
  perform pgrab_internal.answer_valid(p_answer);
  if p_token is null then
    -- somebody who may control the task answers for a receiver that will not
    select l.* into t from pgrab_internal.control_lock(array[p_id], 'resolve', p_by) l;
    if not pgrab_internal.awaits(t.status, t.incarnation) then
      perform pgrab_internal.control_refuse(t,
        'Only a request that has been accepted (kind http, args.await) waits for an answer.');
    end if;
    perform pgrab_internal.event('resolve', p_by, t, jsonb_build_object('outcome', p_answer -> 'outcome'));
  else
    select * into t from pgrab.task x where x.id = p_id for update;
  end if;
  if not coalesce(pgrab_internal.under_way(t.status, t.incarnation), false)
    or p_token is not null and (t.version, t.incarnation) is distinct from (r.version, r.incarnation)
    or pgrab_internal.wait_passed(p_id, null) is not null then
    perform pgrab_internal.answer_late(p_id);
  elsif r.before and t.started_at > (select k.made_at from pgrab_internal.key k where k.name = 'answer') then
    -- the key that was replaced is accepted for the runs that may have a token of it
    perform pgrab_internal.answer_forged(p_id);
  end if;
  if not p_answer ? 'outcome' then
    -- the receiver is at work: stall_after counts from now
    update pgrab.wait w
    set beat_at = clock_timestamp(), until = pgrab_internal.answer_until(t),
      progress = coalesce((p_answer ->> 'progress')::real, w.progress),
      progress_text = case when p_answer ? 'text'
        then left(pgrab_internal.answer_text(p_answer -> 'text'), 200) else w.progress_text end
    where w.task_id = t.id and w.name is null;
    return 'waiting';
  end if;
  v_moved := pgrab_internal.answer_end(t, p_answer ->> 'outcome', case when p_answer ->> 'outcome' = 'failed'
      then left(coalesce(pgrab_internal.answer_text(p_answer -> 'error'),
        case when p_token is null then p_by else 'its receiver' end || ' answered: failed'), 10000) end,
    pgrab_internal.answer_text(p_answer -> 'output'));
  return v_moved[1].outcome;
end $$;
comment on function pgrab_internal.resolve is 'pgrab.resolve() for a caller.';

create or replace function pgrab.resolve(p_task bigint, p_token text, p_answer jsonb) returns text
language sql
return (pgrab_tool.call('resolve', coalesce(p_token, ''), array[p_task], p_answer)).word;
comment on function pgrab.resolve(bigint, text, jsonb) is
  'Answers the request of a task (kind http, args.await), with the token that came with it: {"outcome": '
  '"succeeded", "output": ...} or {"outcome": "failed", "error": "..."} ends the run; {"progress": 40, '
  '"text": "..."} says that it is at work. Returns the outcome that was recorded, or waiting. Refuses a '
  'token that is not one (28000), and an answer to a run that is over (55000).';

create or replace function pgrab.resolve(p_task bigint, p_answer jsonb) returns text
language sql
return (pgrab_tool.call('resolve', p_ids => array[p_task], p_file => p_answer)).word;
comment on function pgrab.resolve(bigint, jsonb) is
  'The same for those who may control the task, who need no token, once its request has been accepted: for a '
  'receiver that will not answer.';

create or replace function pgrab.resolve(p_task text, p_answer jsonb) returns text
language sql
return pgrab.resolve(pgrab_tool.id_of(p_task), p_answer);
comment on function pgrab.resolve(text, jsonb) is 'The same for a task given by its key or its name.';

create or replace function pgrab.rotate_answer_key() returns boolean
language sql
return (pgrab_tool.call('rotate_answer_key')).done;
comment on function pgrab.rotate_answer_key() is
  'Makes a new key for the tokens of callbacks. Tokens of the key before stay good for the runs that had '
  'started by now, and for no others; those of keys before that are void. Called twice, all are.';

-- ------------------------------------------------------------------------------------------ that do not come

create or replace function pgrab_internal.answers_over(p_ids bigint[], p_now timestamptz) returns bigint
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  t pgrab_internal.task;
  v_over bigint := 0;
begin
  for t in
    select x.* from unnest((select p_ids)) i(id) join pgrab.wait w on w.task_id = any (array[i.id])
      join pgrab.task x on x.id = any (array[i.id])
    where w.name is null and w.until <= p_now and pgrab_internal.awaits(x.status, x.incarnation)
  loop
    v_over := v_over + cardinality(pgrab_internal.answer_end(t, 'timed_out',
      case when t.started_at + t.timeout <= clock_timestamp()
        then format('no answer came within %s (timeout)', t.timeout)
      else format('no answer and no beat came for %s (stall_after)', t.stall_after) end));
  end loop;
  return v_over;
end $$;
comment on function pgrab_internal.answers_over is
  'Ends the runs of these tasks whose answer has not come in time; the caller has locked them. Returns how '
  'many.';
