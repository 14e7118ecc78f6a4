-- Which incarnations hold something and belong to no node that is up, and what it costs to ask.
begin;
\ir nodes.inc
select plan(6);
insert into pgrab.node (name, host, pid, pgrab_version, strategy, slots, heartbeat_every, dead_after,
  started_at, incarnation, state, heartbeat_at)
select 'node ' || i, 'h', i, '0', 'id_hash', 4, '1 s', '10 s', now(), i * 10,
  case i when 3 then 'down' else 'up' end, now()
from generate_series(1, 5) i;
create function pg_temp.orphans() returns text language sql as $$
  select string_agg(o::text, ' ' order by o) from pgrab_internal.orphans() o
$$;
create function pg_temp.blocks(p_statement text) returns bigint language plpgsql as $$
declare
  v_plan jsonb;
begin
  execute 'explain (analyze, buffers, format json) ' || p_statement into v_plan;
  return (v_plan #>> '{0,Plan,Shared Hit Blocks}')::bigint
    + (v_plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
end $$;

select is(pg_temp.orphans(), null, 'nothing is held, nothing is an orphan');
insert into pgrab.hold select i * 10, b, '{1}' from generate_series(1, 5) i, generate_series(1, 2) b 
where i <> 3;
select is(pg_temp.orphans(), null, 'what is up holds what it has');
insert into pgrab.hold values (30, 1, '{1}'), (30, 2, '{1}');
select is(pg_temp.orphans(), '30', 'what is down does not');
insert into pgrab.hold values (-7, 1, '{1}'), (5, 1, '{1}'), (11, 1, '{1}'), (12, 1, '{1}'), (12, 9, '{1}'),
  (51, 1, '{1}');
select is(pg_temp.orphans(), '-7 5 11 12 30 51', 'nor what is no node''s, each once');
delete from pgrab.hold;

insert into pgrab.hold select 20, b, '{1}' from generate_series(3, 40000) b;
set local enable_seqscan = off; -- as sessions of nodes have it
set local enable_sort = off;
select pg_temp.orphans();
select cmp_ok(pg_temp.blocks('select exists (select from pgrab_internal.orphans())'), '<', 60::bigint,
  'what a node that is up holds, or has held, is not read');
delete from pgrab.beat;
select is(pg_temp.orphans(), '20', 'without a node everything is an orphan');
select * from finish();
rollback;
