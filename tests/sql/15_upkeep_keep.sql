-- How long the history of a task is kept: as long as all, shorter, or longer.
begin;
\ir nodes.inc
select plan(10);
set local timezone = 'UTC';
create function pg_temp.ago(p_ago interval) returns timestamptz language sql as $$
  select clock_timestamp() - p_ago
$$;
create function pg_temp.note(p_id bigint, p_ago interval, p_ended text default null,
  p_definition jsonb default null, p_chain_id bigint default null) returns void
language sql as $$
  insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, ended, kind, owner,
    definition, chain_id)
  values (p_id, 1, pg_temp.ago(p_ago), now(), 1, 'succeeded', p_ended, 'noop', current_user,
    p_definition, p_chain_id)
$$;
-- What is left of each task, by its age in hours.
create function pg_temp.left() returns text language sql as $$
  select string_agg(r.task_id || ':' || round(extract(epoch from clock_timestamp() - r.finished_at) / 3600),
    ' ' order by r.task_id, r.finished_at desc)
  from pgrab.run r
$$;
select pgrab.upkeep('60 days');

insert into pgrab.task (id, kind, schedule, keep) overriding system value values
  (1, 'noop', '@daily', null), (2, 'noop', '@daily', '2 hours'), (3, 'noop', '@daily', '20 days');
select pg_temp.note(t.id, a.ago)
from pgrab.task t, unnest('{1 hour,5 hours,100 hours,400 hours,600 hours}'::interval[]) a(ago);
select pg_temp.note(4, '5 hours'), pg_temp.note(4, '4 hours', 'done', '{"keep": "03:00:00"}'),
  pg_temp.note(5, '5 hours'), pg_temp.note(5, '4 hours', 'done', '{"keep": "10:00:00"}'),
  pg_temp.note(6, '400 hours', 'done', '{"keep": "20 days"}'), pg_temp.note(7, '400 hours', 'done', '{}');
select pgrab.upkeep('60 days');
select is(pg_temp.left(), '1:1 1:5 1:100 1:400 1:600 2:1 3:1 3:5 3:100 3:400 5:4 5:5 6:400 7:400',
  'a shorter keep is kept to, of live tasks and of those that have ended');
select pgrab.upkeep('60 days');
select pgrab.upkeep('7 days');
select is(pg_temp.left(), '1:1 1:5 1:100 2:1 3:1 3:5 3:100 3:400 5:4 5:5 6:400',
  'and a longer one, while the rest of the day goes');
select is((select count(*) from pg_class c
    where c.relname ~ '^run_[0-9]{8}$' and c.relnamespace = 'pgrab'::regnamespace
      and to_date(right(c.relname, 8), 'YYYYMMDD') < pgrab_internal.today() - 8),
  1::bigint, 'days of which nothing is kept are dropped');
select is(pgrab.upkeep('7 days')::text, null, 'once');
update pgrab.task set keep = null where id = 3;
select pgrab.upkeep('7 days');
select is(pg_temp.left(), '1:1 1:5 1:100 2:1 3:1 3:5 3:100 5:4 5:5 6:400', 'when nobody wants it any more');
delete from pgrab.run where task_id = 6;
select is((select u.what from pgrab.upkeep('7 days') u), 'dropped', 'the day goes');

-- what a chain under way may still ask for
insert into pgrab.task (id, kind, keep) overriding system value values (20, 'noop', '0');
insert into pgrab.task (id, kind, parent_id) overriding system value values (21, 'noop', 20);
select pg_temp.note(20, '1 hour', null, null,
  (select c.chain_id from pgrab.chain c join pgrab.task t on t.chain = c.chain where t.id = 20));
select pg_temp.note(20, '1 hour');
select pgrab.upkeep('7 days');
select is((select count(*) from pgrab.run where task_id = 20), 1::bigint,
  'the output of a parent stays until its chain has ended');

-- at most ten thousand at once, the oldest first
insert into pgrab.task (id, kind, schedule, keep) overriding system value values
  (30, 'noop', '@daily', '1 hour');
insert into pgrab.run (task_id, version, finished_at, created_at, attempt, outcome, kind, owner)
select 30, 1, pg_temp.ago('2 hours') + n * interval '1 ms', now(), 1, 'succeeded', 'noop', current_user
from generate_series(1, 10005) n;
select pgrab.upkeep('7 days');
select is((select count(*) from pgrab.run where task_id = 30), 5::bigint,
  'a round deletes ten thousand of a task');
select pgrab.upkeep('7 days');
select is((select count(*) from pgrab.run where task_id = 30), 0::bigint, 'the next one the rest');

-- nobody reads what has no keep
select is((select array_agg(t.id order by t.id) from pgrab.task t where t.keep is not null), '{2,20,30}',
  'those who want it');
set local enable_seqscan = off;
create temporary table plan (line text);
do $$
declare
  v text;
begin
  for v in explain select x.id from pgrab.task x where x.keep is not null loop
    insert into plan values (v);
  end loop;
end $$;
select isnt_empty($$select from plan where line like '%task_keep_idx%'$$, 'are found by index');
select * from finish();
rollback;
