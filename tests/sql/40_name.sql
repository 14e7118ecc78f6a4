-- A task is named by its id, its key or its name, and shown by its name or its key.
begin;
select plan(38);

insert into pgrab.task (id, key, name, kind, run_at) overriding system value values
  (1, 'nightly', null, 'noop', now() + interval '1 hour'),
  (2, 'b', 'report', 'noop', now() + interval '1 hour'),
  (3, 'c', 'twins', 'noop', now() + interval '1 hour'), (4, null, 'twins', 'noop', now() + interval '1 hour'),
  (5, 'report', 'other', 'noop', now() + interval '1 hour'),
  (6, null, null, 'noop', now() + interval '1 hour');
select is(pgrab_tool.id_of('4'), 4::bigint, 'a number is an id');
select is(pgrab_tool.id_of('-4'), -4::bigint, 'a negative one, too');
select is(pgrab_tool.id_of('nightly'), 1::bigint, 'by its key');
select is(pgrab_tool.id_of('other'), 5::bigint, 'by its name');
select is(pgrab_tool.id_of('report'), 5::bigint, 'a key comes before a name');
select throws_ok($$select pgrab_tool.id_of('twins')$$, '21000', '2 tasks have the name ''twins''',
  'several are refused');
select throws_ok($$select pgrab_tool.id_of('nightl')$$, 'P0002', 'no task has the key or name ''nightl''',
  'none is refused');
select throws_ok($$select pgrab_tool.id_of(null)$$, '22004', 'a task is null', 'null is refused');
create function pg_temp.hint(p_name text) returns text language plpgsql as $$
declare
  v_hint text;
begin
  perform pgrab_tool.id_of(p_name);
  return null;
exception when others then
  get stacked diagnostics v_hint = pg_exception_hint;
  return v_hint;
end $$;
select is(pg_temp.hint('twins'), 'Give the id or the key of one of them: 3 (key c), 4.', 'with the list');
select is(pg_temp.hint('ightl'), 'Did you mean ''nightly''?', 'with what comes near');
select is(pg_temp.hint('zzz'), 'select * from pgrab.tasks shows what there is.', 'or where to look');
insert into pgrab.task (id, key, kind, schedule) overriding system value
values (7, 'gone', 'noop', '@daily'), (8, 'was', 'noop', '@daily');
delete from pgrab.task where key = 'gone';
update pgrab.task set key = 'is now' where key = 'was';
select is(pg_temp.hint('gone'), 'It was deleted; select pgrab.undelete(''gone'') brings it back.',
  'or how to get back what was deleted');
select is(pg_temp.hint('was'), 'select * from pgrab.tasks shows what there is.',
  'but not what has another key now');
delete from pgrab.task where id = 8;

select results_eq($$select id, paused from pgrab.pause('nightly')$$, 'values (1::bigint, true)',
  'pause takes a key');
select results_eq($$select id, paused from pgrab.resume('nightly')$$, 'values (1::bigint, false)',
  'so does resume');
select results_eq($$select id from pgrab.run_now('other')$$, 'values (5::bigint)', 'run_now takes a name');
select is((select count(*) > 2 from pgrab.explain('nightly')), true, 'explain takes a key');
select is((select string_agg(t.id || coalesce(' ' || t.name, ''), ', ' order by t.id) from pgrab.tasks t),
  '1 nightly, 2 report, 3 twins, 4 twins, 5 other, 6', 'tasks shows the name, or the key');
update pgrab.task set due_at = now() - interval '1 minute' where id = 1;
select is((select string_agg(l.name, ' ' order by l.id) from pgrab.late l), 'nightly', 'late, too');
select is((select string_agg(distinct f.name, ' ') from pgrab.forecast('1 minute') f), 'nightly other',
  'and forecast');

select results_eq($$select id, status from pgrab.delete('nightly')$$, $$values (1::bigint, 'cancelled')$$,
  'delete takes a key');
select is((select (r.key, r.outcome, r.ended, r.error = 'deleted by ' || session_user)::text from pgrab.run r
    where r.task_id = 1),
  '(nightly,cancelled,cancelled,t)', 'the history says what has been deleted, and by whom');
select is(pgrab_tool.id_of('nightly'), 1::bigint, 'what has ended answers to its key');
insert into pgrab.task (id, key, kind) overriding system value values (9, 'nightly', 'noop');
select is(pgrab_tool.id_of('nightly'), 9::bigint, 'until a live task has it');

insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, ended, kind, owner, key)
select i, 1, clock_timestamp() - d * interval '1 day', 'epoch', 1, 'succeeded', 'done', 'noop',
  current_user, k
from (values (101, 0.5, 'lately'), (102, 40, 'long ago'), (103, 50, 'lately')) r(i, d, k);
select is(pgrab_tool.id_of('lately'), 101::bigint, 'of several the one that ended last');
select is(pgrab_tool.id_of('long ago'), 102::bigint, 'however long ago');
select is((e.id, e.since between now() - interval '25 h' and now() - interval '23 h')::text, '(,t)',
  'when time is short only the newest day is looked at')
from pgrab_tool.ended_called('long ago', '0 s') e;
select throws_like($$select pgrab_tool.id_refuse('long ago', null, null, now() - interval '2 days')$$,
  'no task has the key or name ''long ago'', of those that have not ended or did since %', 'and it is said');
select throws_ok($$select pgrab_tool.id_of('never')$$, 'P0002', 'no task has the key or name ''never''',
  'nothing is said of that when all were looked at');

-- times
select is((select bool_and(extract(dow from m.at) = d.n and m.at <= now() and m.at > now() - interval '7 days'
      and to_char(m.at, 'HH24:MI') = '03:05')
    from unnest('{Sunday,mon,TUE,wed,Thursday,fri,sat}'::text[]) with ordinality u(day, o)
      cross join lateral (select o - 1 as n) d
      cross join lateral (select pgrab_tool.moment(u.day || ' 03:05') as at) m),
  true, 'the last such weekday');
select is(pgrab_tool.moment('mon')::time, '00:00', 'it begins at midnight');
set local timezone = 'Asia/Tokyo';
select is(extract(dow from pgrab_tool.moment('tue 00:30') at time zone 'Asia/Tokyo'), 2::numeric,
  'in the zone of the session');
select throws_ok($$select pgrab_tool.moment('Monsoon 25:99')$$, '22008', null, 'not any word');
select throws_ok($$select pgrab_tool.moment('infinity')$$, '22008', '''infinity'' is no point in time',
  'what has no end');
select throws_ok($$select pgrab_tool.moment('-infinity')$$, '22008', '''-infinity'' is no point in time',
  'or no beginning');

set local timezone = 'Asia/Tokyo';
select is(pgrab_tool.times_here('n1 is up since 2026-11-26 23:30:02+00; nor any other before '
    '2026-11-27 00:00:00.5+00'), 'n1 is up since 2026-11-27 08:30:02+09; nor any other before '
    '2026-11-27 09:00:00.5+09', 'times of the history are told in the zone of who reads');
select is(pgrab_tool.times_here('no 9999-99-99 99:99:99+00'), 'no 9999-99-99 99:99:99+00',
  'what is none stays');
select is(pgrab_tool.times_here(null), null, 'no text');

select * from finish();
rollback;
