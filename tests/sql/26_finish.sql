-- The end of a run counts only under the version and the incarnation that it was started with; a failure
-- waits for its next attempt.
begin;
\ir nodes.inc
select plan(14);

insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at, kinds) values
  ('n1', 'h', 1, '0', 'id_hash', 4, '1 s', '10 s', now(), 4, 'up', now(), '{noop}');
insert into pgrab.task (kind, name, schedule, max_attempts)
values ('noop', 'once', null, 3), ('noop', 'again', '@every 1h', 3);
update pgrab.task t set status = 'running', version = 1000, node_id = n.id, incarnation = 4, attempt = 1,
  started_at = now() from pgrab.node n;

create function pg_temp.finish(p_name text, p_version bigint, p_incarnation bigint, p_outcome text)
returns bigint
language sql as $$
  select count(*)
  from pgrab.task t cross join lateral pgrab_internal.finish(
    jsonb_populate_record(null::pgrab_internal.batch, jsonb_build_object('ids', array[t.id],
      'versions', array[p_version], 'incarnations', array[p_incarnation], 'started_us', array[2000],
      'finished_us', array[1000], 'outcomes', array[p_outcome], 'exit_codes', array[0], 'outputs', array[''],
      'truncated', array[false], 'errors', array['why'])), t.node_id, 'n1') f
  where t.name = p_name
$$;

select is(pg_temp.finish('once', 999, 4, 'succeeded'), 0::bigint, 'a success of an older version is refused');
select is(pg_temp.finish('once', 1000, 5, 'succeeded'), 0::bigint, 'one of another incarnation, too');
select is(pg_temp.finish('once', 999, 4, 'failed'), 0::bigint, 'a failure of an older version');
select is(pg_temp.finish('once', 1000, 5, 'failed'), 0::bigint, 'a failure of another incarnation');
select is(pg_temp.finish('again', 999, 4, 'succeeded'), 0::bigint, 'of a schedule, an older version');
select is(pg_temp.finish('again', 1000, 5, 'succeeded'), 0::bigint, 'and another incarnation');
select results_eq('select name, status, version from pgrab.task order by name',
  $$values ('again', 'running', 1000::bigint), ('once', 'running', 1000::bigint)$$, 'they run as before');
select is((select count(*) from pgrab.run), 0::bigint, 'and the history knows nothing of it');
select is(pg_temp.finish('once', 1000, 4, 'succeeded') + pg_temp.finish('again', 1000, 4, 'succeeded'),
  2::bigint, 'the right ones count');
select is(pg_temp.finish('again', 1000, 4, 'succeeded'), 0::bigint, 'once');

-- how long a retry waits
select is(pgrab_internal.retry_wait('5 s', '1 hour', 1) between '4.5 s' and '5.5 s', true,
  'the first wait is the backoff, +-10 %');
select is(pgrab_internal.retry_wait('5 s', '1 hour', 4) between '36 s' and '44 s', true, 'then it doubles');
select is(pgrab_internal.retry_wait('5 s', '1 hour', 1000) between '54 min' and '66 min', true,
  'up to backoff_max');
select is(pgrab_internal.retry_wait('0', '0', 3), '0', 'no backoff, no wait');

select * from finish();
rollback;
