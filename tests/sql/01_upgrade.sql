-- A later migration has to be able to change the tables while the functions and views of today stand.
begin;
select plan(7);
select lives_ok(format('alter table pgrab.%I add column later bigint not null default 0', t), t || ' can be given a column')
from unnest('{task,run,node,limit,chain,edge,kind}'::text[]) t;
select * from finish();
rollback;
