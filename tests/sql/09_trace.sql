-- Traces: which task belongs to one, what its run hands on, and where it is written down.
begin;
select plan(22);
\set parent '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
\set other '00-11111111111111111111111111111111-2222222222222222-00'

create function pg_temp.trace_of(p_key text) returns text language sql as $$
  select t.traceparent from pgrab.task t where t.key = p_key
$$;
insert into pgrab.task (key, kind) values ('none', 'noop');
select is(pg_temp.trace_of('none'), null, 'without a trace there is none');
insert into pgrab.task (key, kind, traceparent) values ('given', 'noop', :'parent');
select is(pg_temp.trace_of('given'), :'parent', 'one that is given is kept');

select throws_ok(format($$insert into pgrab.task (kind, traceparent) values ('noop', %L)$$, x.bad), '22023',
  format('task traceparent cannot be %L', x.bad), x.why)
from (values
  ('00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7', 'without flags it is none'),
  ('00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01', 'nor in upper case'),
  ('00-00000000000000000000000000000000-00f067aa0ba902b7-01', 'nor with a trace of zeros'),
  ('00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01', 'nor with a span of zeros'),
  (e'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n', 'nor with a line end'),
  ('01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', 'nor of a version that there is not'),
  ('', 'nor empty')) x(bad, why);
select throws_ok(format('update pgrab.task set traceparent = %L where key = %L', 'x', 'given'), '22023',
  'task traceparent cannot be ''x''', 'nor by an edit');

-- the setting
select set_config('pgrab.traceparent', :'parent', true);
insert into pgrab.task (key, kind) values ('set', 'noop');
insert into pgrab.task (key, kind, traceparent) values ('null', 'noop', null), ('own', 'noop', :'other');
insert into pgrab.task (key, kind, schedule) values ('schedule', 'noop', '@yearly');
insert into pgrab.task (key, kind, schedule, traceparent) values ('traced', 'noop', '@yearly', :'other');
select is(pg_temp.trace_of('set'), :'parent', 'the setting is the default');
select is(pg_temp.trace_of('null'), null, 'null is none');
select is(pg_temp.trace_of('own'), :'other', 'what is given goes before');
select is(pg_temp.trace_of('schedule'), null, 'a schedule is more than one request''s');
select is(pg_temp.trace_of('traced'), :'other', 'unless it says so');
select set_config('pgrab.traceparent', 'nonsense', true);
select lives_ok($$insert into pgrab.task (key, kind) values ('nonsense', 'noop')$$,
  'a setting that is none refuses no task');
select set_config('pgrab.traceparent', '', true);

-- chains
insert into pgrab.task (key, kind, parent_id)
select 'child', 'noop', t.id from pgrab.task t where t.key = 'given';
insert into pgrab.task (key, kind, parent_id)
select 'grandchild', 'noop', t.id from pgrab.task t where t.key = 'child';
select is(pg_temp.trace_of('grandchild'), :'parent', 'links belong to the trace of their chain');

-- what a run hands on
select is(pgrab_internal.traceparent_of(:'parent', 1, 2) ~ ('^' || left(:'parent', 36) || '[0-9a-f]{16}-01$'),
  true, 'a run hands on its trace, and itself as the parent');
select isnt(pgrab_internal.span_of(1, 2), pgrab_internal.span_of(1, 3), 'each run is another span');

-- the history, by each of the three ways to the end of a run
insert into pgrab.task (key, kind, schedule, traceparent, max_attempts) values
  ('again', 'noop', '@yearly', :'other', 1);
update pgrab.task set status = 'running', node_id = 1, incarnation = 1, claimed_at = clock_timestamp(),
  started_at = clock_timestamp(), attempt = 1, version = version + 1
where key in ('given', 'set', 'own', 'again');
create function pg_temp.finish(p_keys text[]) returns void language sql as $$
  select pgrab_internal.finish((array_agg(t.id order by t.id), array_agg(t.version order by t.id),
    array_agg(t.incarnation), array_agg(2), array_agg(1), array_agg('succeeded'::text), null, null, null,
    null, null, null)::pgrab_internal.outcomes, 1, 'n')
  from pgrab.task t where t.key = any (p_keys)
$$;
select pg_temp.finish('{set}'), pg_temp.finish('{own,given}'), pg_temp.finish('{again}');
select is((select string_agg(r.key || case r.traceparent when :'parent' then ' parent' when :'other'
    then ' other' end, ', ' order by r.key) from pgrab.run r where r.task_id in (
      select t.id from pgrab.task t union all select r.task_id where r.ended is not null)),
  'again other, given parent, own other, set parent', 'the history says it');

select is(
  (select x.traceparent from pgrab.run r
    cross join lateral pgrab_internal.alert_task(r.task_id, r.finished_at) x where r.key = 'set'),
  :'parent', 'and who tells of a task that is gone knows it');

select pgrab_internal.alert_insert('{"kind": "noop", "key": "alert"}', current_user,
  pgrab_internal.alert_facts('failed', row(t.*)::pgrab_internal.task, null, 'n'))
from pgrab.task t where t.key in ('child');
select is(pg_temp.trace_of('alert'), :'parent', 'the task of an alert belongs to the trace of what failed');

select * from finish();
rollback;
