-- An edit of `priority` and `paused` alone: what else a task is was checked before, and is not checked again.
begin;
select plan(10);
insert into pgrab.kind (kind, summary, handled) values ('resize', 'a handler', true);
insert into pgrab.task (id, kind, args, run_at, schedule) overriding system value values
  (1, 'resize', '{"width": 1}', now() + interval '1 h', null),
  (2, 'resize', '{"width": 1}', null, '@hourly');
update pgrab.kind set schema = '{"properties": {"width": {"type": "string"}}}' where kind = 'resize';

select throws_ok('update pgrab.task set name = ''x'' where id = 1', '22023', null,
  'another edit is checked: the args do not match any more');
select lives_ok('update pgrab.task set priority = 50 where id = 1', 'an edit of priority is not');
select lives_ok('update pgrab.task set priority = 7, paused = true where id = 1', 'nor with a pause');
select throws_ok('update pgrab.task set priority = 8, name = ''x'' where id = 1', '22023', null,
  'but together with another column');
select is((t.priority, t.paused, t.due_at, t.version -
    (date_part('epoch', t.created_at) * 1e6)::bigint)::text,
  '(7,t,,2)', 'each has given the task a new version')
from pgrab.task t where t.id = 1;
select is((select jsonb_agg(e.detail order by e.at) from pgrab.event e where e.task_id = 1),
  '[{"priority": ["0", "50"]}, {"paused": ["false", "true"], "priority": ["50", "7"]}]',
  'and is written down');
select is((select array_agg(l.band order by l.band) from pgrab.lane l where l.kind = 'resize'), '{2,3,4}',
  'the lanes of the new bands are known');

update pgrab.task set priority = 60 where id = 2;
select is(pgrab.definition_of(2, t.version - 1) ->> 'priority', null,
  'an earlier run had the earlier priority')
from pgrab.task t where t.id = 2;
select is(pgrab.definition_of(2, t.version) ->> 'priority', '60', 'a later one has the new one')
from pgrab.task t where t.id = 2;
update pgrab.task set status = 'claimed', node_id = 1, incarnation = 2, version = version + 1 where id = 2;
update pgrab.task set priority = 61 where id = 2;
select is((t.status, t.node_id)::text, '(scheduled,)', 'it takes a claimed task from its node')
from pgrab.task t where t.id = 2;
select * from finish();
rollback;
