-- A later migration has to be able to change the tables while the functions of today stand.  Views may have
-- to go first: `pgrab migrate` makes them anew with every upgrade.
begin;
select plan(8);
set local client_min_messages = warning;
\ir ../../src/db/sql/migrate_drop_api.sql
;
select lives_ok(format('alter table pgrab.%I add column later bigint not null default 0', t),
  t || ' can be given a column')
from unnest('{task,run,registration,beat,limit,chain,edge,kind}'::text[]) t;
select * from finish();
rollback;
