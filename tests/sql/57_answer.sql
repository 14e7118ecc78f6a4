-- Answers that come later: who awaits one, what ends it, what is refused, and what the dead change.
begin;
select plan(90);
set local timezone = 'UTC';
\ir chain.inc
insert into pgrab.registration (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at) values ('n1', 'h', 1, '1', 'id_hash', 8, '1 s', '20 s', now());
-- A node begins the run; then it reports that the request was accepted.
create function pg_temp.begins(p_id bigint) returns text language sql as $$
  update pgrab.task t set status = 'running', version = version + 1, node_id = (
      select r.id from pgrab.registration r), incarnation = 11, attempt = attempt + 1, claimed_at = now(),
    started_at = now()
  where id = p_id and status = 'scheduled' returning pgrab_internal.answer_token(id, version, incarnation)
$$;
create function pg_temp.says(p_id bigint, p_outcome text default 'awaits') returns bigint language sql as $$
  select count(*) from pgrab.task t cross join lateral pgrab_internal.finish((array[t.id], array[t.version],
    array[11], array[2000000], array[1000000], array[p_outcome], array[202], null, null, null,
    null, null)::pgrab_internal.outcomes, t.node_id, 'n1') f where t.id = p_id
$$;
create function pg_temp.awaits(p_id bigint) returns text language plpgsql as $$
declare
  v_token text := pg_temp.begins(p_id);
begin
  perform pg_temp.says(p_id);
  return v_token;
end $$;
create function pg_temp.row_of(p_id bigint) returns text language sql as $$
  select t.status || case when t.incarnation is null then '' else ' held' end
    || coalesce(' until ' || (w.until - t.started_at)::text, '')
  from pgrab.task t left join pgrab.wait w on w.task_id = t.id where t.id = p_id
$$;
create function pg_temp.last(p_id bigint) returns text language sql as $$
  select concat_ws(' ', r.outcome, r.ended, r.node, r.error, r.output) from pgrab.run r
  where r.task_id = p_id order by r.finished_at desc, r.version desc limit 1
$$;
create function pg_temp.over(p_id bigint) returns bigint language sql as $$
  update pgrab.wait set until = now() - interval '1 s' where task_id = p_id;
  select over from pgrab_internal.waits_tick()
$$;

create function pg_temp.refused(p_id bigint, p_token text, p_answer jsonb default '{"outcome": "succeeded"}')
returns text language plpgsql as $$
begin
  perform pgrab.resolve(p_id, p_token, p_answer);
  return 'taken';
exception when others then
  return sqlstate;
end $$;

-- ------------------------------------------------------------------------------------------------ the hash
select is(encode(pgrab_internal.answer_mac(repeat('36', 64) || repeat('5c', 64), 1, 2, -3), 'hex'),
  'db68ed8ac758f0db80bee14e0eecbc98dcea1712c29c31e3f0c3df7132a2c724',
  'HMAC-SHA-256, with the empty key, as another program works it out');
select is(length(value), 256, 'a key is both halves of it')
from pgrab_internal.key where name = 'answer';
select isnt((select pgrab_internal.answer_key_make()), pgrab_internal.answer_key_make(), 'no two are alike');

-- ---------------------------------------------------------------------------------------------- one answer
insert into pgrab.task (id, kind, command, args, timeout, stall_after, schedule, max_attempts, delivery)
overriding system value
select g, 'http', 'http://x/', '{"await": true}', '1 hour', case g when 7 then interval '10 s' end,
  case g when 5 then '@every 1h' end, 2, case g when 6 then 'at_most_once' else 'at_least_once' end
from generate_series(1, 12) g;
update pgrab.task set due_at = now(), fire_at = now(), run_at = now() where id = 5;
alter table pgrab.task alter id restart with 1001;
select pg_temp.awaits(1) as token \gset
select is(pg_temp.row_of(1), 'waiting held until 01:00:00', 'it waits, for what its timeout leaves');
select is((select runs from pgrab.task where id = 1), 0::bigint, 'its run has not ended');
select is(pg_temp.says(1), 1::bigint, 'its node may say so again');
select is(pg_temp.row_of(1), 'waiting held until 01:00:00', 'and nothing changes');
select is((select gate || ' ' || verdict from pgrab.explain(1)), 'answer waits', 'explain says so');
select is(pgrab.why(1), 'waits for the answer to its request', 'so do lists');
select is((select waits_for from pgrab.waits where id = 1), '(answer)', 'and pgrab.waits');
select is(pgrab_internal.answer_text(to_jsonb(E'a\tb\n\u001b[2J\u009b2J\u202ec\u2066'::text)),
  E'a\tb\n?[2J?2J?c?', 'what controls a terminal is not kept');
select is(pgrab.resolve(1, :'token', '{"progress": 40, "text": "half"}'), 'waiting', 'a beat');
select is((select progress || progress_text from pgrab.waits where id = 1), '40half', 'is shown');
select is(pgrab.resolve(1, :'token', '{}'), 'waiting', 'one that says nothing');
select is((select progress || progress_text from pgrab.waits where id = 1), '40half', 'leaves that');
select is(pgrab.resolve(1, :'token', '{"outcome": "succeeded", "output": {"n": 1}}'), 'succeeded',
  'an answer');
select is(pg_temp.last(1), 'succeeded done n1 {"n": 1}', 'ends the run and the task');
select is((select (started_at is not null) and incarnation = 11 and claimed_at is not null and attempt = 1
  from pgrab.run where task_id = 1), true, 'one row of history, from the start to the answer');
select is_empty('select from pgrab.wait where task_id = 1', 'nothing is left');
select throws_ok(format($$select pgrab.resolve(1, %L, '{"outcome": "failed"}')$$, :'token'), '55000',
  'this run of task 1 is over', 'a second answer');
select is(pg_temp.says(1), 0::bigint, 'or its node, comes too late');
select is((select count(*) from pgrab.run where task_id = 1), 1::bigint, 'and changes nothing');

-- ------------------------------------------------------------------------------------------------- failures
select pg_temp.awaits(2) as token \gset
select is(pgrab.resolve(2, :'token', '{"outcome": "failed", "error": "no"}'), 'failed', 'a failure');
select is(pg_temp.row_of(2) || ', ' || pg_temp.last(2), 'scheduled, failed n1 no', 'is tried again');
select throws_like(format($$select pgrab.resolve(2, %L, '{}')$$, :'token'), '% is over',
  'with another token');
select pg_temp.begins(2) as token2 \gset
select isnt(:'token'::text, :'token2'::text, 'as it has');
select throws_like(format($$select pgrab.resolve(2, %L, '{}')$$, :'token'), '% is over',
  'the old one is not good for the new run');
select pg_temp.says(2);
select is(pgrab.resolve(2, :'token2', '{"outcome": "failed"}'), 'failed', 'the last attempt');
select is(pg_temp.row_of(2) || ', ' || pg_temp.last(2), 'parked, failed n1 its receiver answered: failed',
  'is the last');
select pg_temp.begins(3) as token \gset
select is(pgrab.resolve(3, :'token', '{"outcome": "succeeded", "output": "quick"}'), 'succeeded',
  'an answer before the node has said that it comes');
select is(pg_temp.last(3), 'succeeded done n1 quick', 'counts');
select is((select count(*) from pgrab_internal.held(11) where id = 3), 0::bigint, 'and nobody holds it');
select pg_temp.awaits(4) as token \gset
update pgrab.wait set until = clock_timestamp() where task_id = 4;
select throws_ok(format($$select pgrab.resolve(4, %L, '{"outcome": "succeeded"}')$$, :'token'), '55000',
  'this run of task 4 is over', 'an answer after the time, whether a node has noticed or not');
select throws_like(format($$select pgrab.resolve(4, %L, '{}')$$, :'token'), '% is over',
  'is refused, as is a beat');
select throws_like($$select pgrab.resolve(4, '{"outcome": "succeeded"}')$$, '% is over',
  'also from whoever may control it');
select is(pg_temp.over(4), 1::bigint, 'a timeout');
select matches(pg_temp.row_of(4) || ', ' || pg_temp.last(4), '^scheduled, timed_out n1 no answer',
  'is tried again');
select throws_like(format($$select pgrab.resolve(4, %L, '{}')$$, :'token'), '% is over',
  'then it is too late');
select pg_temp.awaits(5) as token \gset
select is((select count(*) from pgrab.forecast('3 hours') where task_id = 5) between 2 and 3, true,
  'the next fires are foreseen');
select is(pgrab.resolve(5, :'token', '{"outcome": "succeeded"}'), 'succeeded', 'of a schedule');
select is(pg_temp.row_of(5), 'scheduled', 'the next fire follows');
select pg_temp.awaits(6) as token \gset
select is(pg_temp.over(6), 1::bigint, 'at_most_once: a lost answer');
select is(pg_temp.row_of(6), 'parked', 'is not tried again');
select pg_temp.awaits(7) as token \gset
select is(pg_temp.row_of(7) < 'waiting held until 00:59', true, 'stall_after is shorter');
update pgrab.wait set until = clock_timestamp() + interval '5 s' where task_id = 7;
select pgrab.resolve(7, :'token', '{}');
select is((select until > now() + interval '9 s' from pgrab.wait where task_id = 7), true,
  'a beat extends it');
select is(pg_temp.over(7), 1::bigint, 'without one');
select matches(pg_temp.last(7), 'no answer and no beat came for 00:00:10', 'it has stalled');

-- ----------------------------------------------------------------------------- death, and what people do
select pg_temp.awaits(8) as token \gset
insert into pgrab.hold (incarnation, batch, ids) values (11, 1, '{8}');
select is((select put_back from pgrab_internal.recover('n2', 11)), 0::bigint, 'its node dies');
select is(pg_temp.row_of(8), 'waiting held until 01:00:00', 'it goes on waiting');
select is_empty('select from pgrab.hold where incarnation = 11', 'and nothing is searched for again');
select is((select count(*) from pgrab.pause(8)), 1::bigint, 'paused');
update pgrab.task set command = 'http://y/', priority = 3 where id = 8;
select is((select paused from pgrab.task where id = 8)::text || ' ' || pg_temp.row_of(8),
  'true waiting held until 01:00:00', 'or edited, it goes on waiting');
select is(pgrab.resolve(8, :'token', '{"outcome": "succeeded"}'), 'succeeded', 'and is answered');
select is(pg_temp.row_of(8), 'scheduled', 'what was edited meanwhile runs next');
select pg_temp.awaits(9) as token \gset
select throws_like('select pgrab.retry(9)', 'task 9 is waiting', 'no retry');
select throws_like('select pgrab.run_now(9)', 'task 9 is waiting', 'no second run');
select is((select status from pgrab.cancel(9)), 'cancelled', 'cancelled');
select is(pg_temp.last(9), 'cancelled cancelled n1 cancelled by ' || current_user, 'at once');
select throws_like(format($$select pgrab.resolve(9, %L, '{}')$$, :'token'), '% is over', 'for good');
select pg_temp.awaits(10) as token \gset
select is((select count(*) from pgrab.delete(10)), 1::bigint, 'deleted');
select is(pg_temp.last(10), 'cancelled cancelled n1 deleted by ' || current_user || ' while it ran', 'too');

-- ------------------------------------------------------------------------------------------------ forgeries
select pg_temp.awaits(11) as token \gset
select is(array(
    select f.token from unnest(array['', 'x', left(:'token', -1), :'token' || '0', ' ' || :'token',
        overlay(:'token' placing 'f' from length(:'token')), overlay(:'token' placing '0' from 30),
        regexp_replace(:'token', '^[0-9]+', '1'), regexp_replace(:'token', '\.11\.', '.12.'),
        regexp_replace(:'token', '\.11\.', '.011.'),
        regexp_replace(:'token', '\.11\.', '.-9223372036854775809.'),
        upper(:'token'), repeat('9', 100000), null]) f(token)
    where f.token is distinct from :'token' and (select pg_temp.refused(11, f.token)) <> '28000'),
  '{}'::text[],   'what is no token is refused as one');
select is(pg_temp.refused(12, :'token'), '28000', 'and that of another task');
select is(array(
    select a from unnest(array['null', '[]', '1', '"{}"', '{"outcome": "lost"}', '{"outcome": null}',
      '{"outcome": "failed", "error": 1}', '{"outcome": "succeeded", "error": "no"}', '{"progress": 101}',
      '{"progress": "40"}', '{"text": 1}', '{"what": 1}', '{"outcome": "failed", "progress": 1}']) a
    where pg_temp.refused(11, :'token', a::jsonb) <> '22023'), '{}'::text[], 'what is no answer is refused');
select is(pg_temp.refused(11, :'token', null), '22023', 'nothing is no answer');
select is(pg_temp.row_of(11) || (select count(*) from pgrab.run where task_id = 11),
  'waiting held until 01:00:000', 'and all that changed nothing');

-- ---------------------------------------------------------------------------------------------------- keys
select is(pgrab.rotate_answer_key(), true, 'a new key');
select is(pgrab.resolve(11, :'token', '{}'), 'waiting', 'a run that had started may still be answered');
select isnt(pgrab_internal.answer_token(id, version, incarnation), :'token',
  'others get tokens of the new one')
from pgrab.task where id = 11;
update pgrab.task set started_at = clock_timestamp() where id = 11;
select is(pg_temp.refused(11, :'token'), '28000', 'for them those of the old one are no good');
update pgrab.task set started_at = now() where id = 11;
select pgrab.rotate_answer_key();
select is(pg_temp.refused(11, :'token'), '28000', 'once more, and it is void');
select pgrab_internal.answer_token(id, version, incarnation) as token from pgrab.task where id = 11 \gset

-- -------------------------------------------------------------------------------------------------- output
select is(pgrab.resolve(11, :'token', jsonb_build_object('outcome', 'succeeded', 'output',
  E'\u0001' || repeat('ab', 50000))), 'succeeded', 'a long output');
select is((select output_truncated::text || ' ' || (octet_length(output) <= 65536) || ' ' || left(output, 3)
  from pgrab.run where task_id = 11), 'true true ?ab', 'is cut, and printable');

-- ------------------------------------------------------------------------- for a receiver that will not
insert into pgrab.task (id, key, kind, command, args, max_attempts, owner) overriding system value
select g, 'k' || g, 'http', 'http://x/', '{"await": true}', 2, current_user from generate_series(61, 62) g;
select throws_ok($$select pgrab.resolve(61, '{"outcome": "succeeded"}')$$, '55000',
  'task 61 (k61) is scheduled', 'what has not asked is not answered');
select pg_temp.awaits(61), pg_temp.awaits(62);
select throws_ok($$select pgrab.resolve(61, '{"outcome": "lost"}')$$, '22023', null, 'with an answer');
select is(pgrab.resolve(61, '{"outcome": "succeeded", "output": "by hand"}'), 'succeeded',
  'whoever may control a task needs no token');
select is(pg_temp.last(61), 'succeeded done n1 by hand', 'to end its run');
select is((select e.role || ' ' || e.detail::text from pgrab.event e
  where e.task_id = 61 and e.what = 'resolve'), current_user || ' {"outcome": "succeeded"}',
  'and it is known who did');
select is(pgrab.resolve('k62', '{"outcome": "failed"}'), 'failed', 'a failure');
select is(pg_temp.row_of(62) || ', ' || pg_temp.last(62),
  'scheduled, failed n1 ' || current_user || ' answered: failed', 'is tried again');
select throws_ok($$select pgrab.resolve(61, '{"outcome": "failed"}')$$, 'P0002', 'task 61 has ended: done',
  'what has ended is not answered');
select throws_ok($$select pgrab.resolve(null::bigint, '{"outcome": "failed"}')$$, '22004', null,
  'or is no task');

-- ------------------------------------------------------------------------------ chains, limits, batches
insert into pgrab.limit (key, max_running) values ('one', 1);
insert into pgrab.task (id, kind, command, args, limit_key) overriding system value
values (21, 'http', 'http://x/', '{"await": true}', 'one');
insert into pgrab.task (id, kind, parent_id) overriding system value values (22, 'noop', 21);
select pg_temp.begins(21) as token \gset
insert into pgrab.limit_place (task_id, key, version, incarnation, at, started)
select id, 'one', version, 11, now(), true from pgrab.task where id = 21;
select pg_temp.says(21);
select is_empty($$select from pgrab.limit_place$$, 'who waits for an answer has no place under a limit');
select is((select status from pgrab.task where id = 22), 'waiting', 'its child waits');
select pgrab.resolve(21, :'token', '{"outcome": "succeeded"}');
select is((select status from pgrab.task where id = 22), 'scheduled', 'until the answer has come');
insert into pgrab.task (id, kind) overriding system value values (30, 'batch');
insert into pgrab.task (id, kind, command, args, batch) overriding system value
values (31, 'http', 'http://x/', '{"await": true}', 30);
select pgrab.seal(30);
select pg_temp.awaits(31) as token \gset
select is((select running from pgrab.batches where id = 30), 1::bigint,
  'a member of a batch counts as running');
select pgrab.resolve(31, :'token', '{"outcome": "succeeded"}');
select is((select succeeded from pgrab.batches where id = 30), 1::bigint, 'and then as succeeded');
insert into pgrab.task (id, kind, command, args, wait_for) overriding system value
values (41, 'http', 'http://x/', '{"await": true}', 'go');
select pgrab.signal(41, 'go');
select pg_temp.awaits(41) as token \gset
select is((select count(*) from pgrab.signal(41, 'go')), 0::bigint,
  'a signal does not start it a second time');
select pgrab.resolve(41, :'token', '{"outcome": "failed"}');
select is(pg_temp.row_of(41), 'scheduled', 'nor does another attempt ask for one');
select throws_like($$insert into pgrab.task (kind, command, args) values
  ('http', 'http://x/', '{"await": 1}')$$,
  'task args cannot be%', 'await is true or false');
select * from finish();
rollback;
