-- What runs have taken.
begin;
select plan(10);

insert into pgrab.task (key, kind) values ('one', 'noop'), ('cost', 'noop'), ('a', 'noop'), ('b', 'noop');
update pgrab.task set share_key = 'x' where key in ('a', 'b');
insert into pgrab.task (key, kind, schedule, share_key) values ('again', 'noop', '@yearly', 'x');
update pgrab.task set status = 'running', node_id = 1, incarnation = 1, claimed_at = clock_timestamp(),
  started_at = clock_timestamp(), attempt = 1, version = version + 1;
create function pg_temp.finish(p_keys text[], p_costs pgrab_internal.cost[]) returns void language sql as $$
  select pgrab_internal.finish((array_agg(t.id order by t.id), array_agg(t.version order by t.id),
    array_agg(t.incarnation), array_agg(2000000), array_agg(0), array_agg('succeeded'::text), null,
    array_agg('four'::text), null, null, null, p_costs)::pgrab_internal.outcomes, 1, 'n')
  from pgrab.task t where t.key = any (p_keys)
$$;
create function pg_temp.cost_of(p_key text) returns text language sql as $$
  select concat_ws(' ', r.cpu_seconds, r.memory_bytes, r.output_bytes) from pgrab.run r where r.key = p_key
$$;
select pg_temp.finish('{one}', null), pg_temp.finish('{cost}', array['(0.25,1000,)'::pgrab_internal.cost]),
  pg_temp.finish('{a,b}', array[null, '(15e-3,,70000)']::pgrab_internal.cost[]),
  pg_temp.finish('{again}', array['(1.5,5000,)'::pgrab_internal.cost]);
select is(pg_temp.cost_of(x.key), x.cost, x.says)
from (values ('one', '', 'nothing is known of a noop'), ('cost', '0.25 1000', 'one by itself'),
  ('a', '', 'one of a batch that has none'), ('b', '0.015 70000', 'and one that has'),
  ('again', '1.5 5000', 'one of a schedule')) x(key, cost, says);

update pgrab.run set kind = 'sql', owner = 'somebody' where key = 'one';
select is((select string_agg(concat_ws(' ', case u.who when current_user then 'me' else u.who end, u.runs,
      u.failures, u.seconds, u.cpu_seconds, u.database_seconds, u.memory_bytes, u.output_bytes), ', '
      order by u.who = current_user desc)
    from pgrab.usage('owner', '1 day') u),
  'me 4 0 8 1.765 0 5000 70012, somebody 1 0 2 2 4', 'for each owner');
select is((select string_agg(concat_ws(' ', u.who, u.cpu_seconds), ', ' order by u.who)
    from pgrab.usage('key', '1 hour') u), 'a, again 1.5, b 0.015, cost 0.25, one', 'for each key');
select is((select string_agg(concat_ws(' ', u.who, u.runs), ', ' order by u.who)
    from pgrab.usage('share_key', '1 hour') u), 'x 3, 2', 'for each share_key');
select is((select count(*) from pgrab.usage('owner', '1 day', '0 s')), 0::bigint, 'of that time');
select throws_ok($$select * from pgrab.usage('share')$$, '22023', 'usage cannot be summed by ''share''',
  'by nothing else');

select * from finish();
rollback;
