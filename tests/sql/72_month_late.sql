-- Will the load fit: pgrab.congestion().
begin;
\ir nodes.inc
select plan(9);
set local timezone = 'UTC';

-- at: seconds from now
create function pg_temp.waits(p_at float8[], p_until float8[], p_slots bigint) returns text language sql as $$
  select string_agg(format('%s-%s %s>%s', round(extract(epoch from l.at - timestamptz 'epoch')),
    round(extract(epoch from l.over_at - timestamptz 'epoch')), round(l.before), round(l.after)), ' '
    order by l.at)
  from pgrab_internal.congestion_levels(array(select 'a'::text from unnest(p_at)),
    array(select to_timestamp(x) from unnest(p_at) x), array(select to_timestamp(x) from unnest(p_until) x),
    array(select 1::float8 from unnest(p_at)), array(select p_slots from unnest(p_at))) l
$$;
select is(pg_temp.waits('{0,0}', '{100,200}', 2), null, 'what fits does not wait');
select is(pg_temp.waits('{0,0,0}', '{100,100,100}', 2), '0-100 0>100 100-150 100>0', 'one of three on two');
select is(pg_temp.waits('{0,0,50}', '{100,100,100}', 1), '0-50 0>50 50-100 50>150 100-250 150>0',
  'more comes while some waits');
select is(pg_temp.waits('{0,0,500}', '{100,100,600}', 1), '0-100 0>100 100-200 100>0', 'it is worked off');

insert into pgrab.node (id, name, host, pid, pgrab_version, strategy, slots, kinds, heartbeat_every,
  dead_after, started_at, incarnation, state, heartbeat_at)
values (1, 'n1', 'h', 1, '1', 'id_hash', 2, '{shell}', '1 s', '1 hour', now(), 11, 'up', now());
insert into pgrab.task (kind, name, command, run_at)
select 'shell', 'etl ' || g, 'true', date_trunc('hour', now()) + interval '3 hours'
from generate_series(1, 8) g;
select is((select count(*) from pgrab.congestion()), 0::bigint,
  'of tasks that have never run nothing is known');
update pgrab.task set durations = '\x97';
select is((select string_agg(format('%s %s %s %s until %s late %s at %s: %s and %s', c.crew, c.slots,
      c.begins_at - date_trunc('hour', now()), '', c.ends_at - date_trunc('hour', now()), c.late_by,
      c.worst_at - date_trunc('hour', now()), c.names, c.more), '; ')
    from pgrab.congestion('6 h') c),
  'workers 2 03:00:00  until 04:58:36 late 01:28:57 at 03:29:39: etl 1 (01:28), etl 2 (01:28), '
  'etl 3 (01:28), etl 4 (01:28), etl 5 (01:28) and 3', 'eight on two, half an hour each');
insert into pgrab.limit (key, max_running) values ('tape', 1);
update pgrab.task set limit_key = 'tape', run_at = date_trunc('hour', now()) + id % 2 * interval '2 hours'
  + interval '1 hour' where name in ('etl 1', 'etl 2', 'etl 3');
delete from pgrab.task where name not in ('etl 1', 'etl 2', 'etl 3');
select is((select string_agg(format('%s %s %s', c.crew, c.late_by, c.names), '; ')
    from pgrab.congestion('6 h') c),
  'limit tape 00:29:39 etl 1 (00:29), etl 3 (00:29)', 'on a limit');

-- 0x97: 29:39; 0x9f: what its holder takes
update pgrab.task set durations = '\xa7', run_at = date_trunc('hour', now()) + interval '2 hours'
where name = 'etl 1';
update pgrab.task set run_at = date_trunc('hour', now()) + interval '2 hours 30 minutes' where name = 'etl 2';
delete from pgrab.task where name = 'etl 3';
select ok(pgrab_tool.usual('\xa7') > interval '70 min', 'the one takes long');
select is((select string_agg(format('%s %s %s', c.crew, c.late_by, c.names), '; ')
    from pgrab.congestion('8 h') c),
  (select format('limit tape %s etl 2 (%s)', date_trunc('second', u.late), to_char(u.late, 'HH24:MI'))
  from (select pgrab_tool.usual('\xa7') - interval '30 min' as late) u),
  'on a limit of one: late until the holder ends, however short the other is');

select * from finish();
rollback;
