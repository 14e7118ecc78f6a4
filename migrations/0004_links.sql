-- Links of a chain that runs once leave with their end, as every task that runs once; the history is their memory.  Only a chain with a schedule counts its links.
-- Breaking: no.

-- They come back with the functions; while they are gone nobody asks why rows leave.
drop trigger if exists task_20_deleted on pgrab.task;
drop trigger if exists edge_10_changed on pgrab.edge;

-- Until the functions come, in the next transaction, the old ones would take a chain without a count for one that has ended, and delete what is left of it. So no link ends in between: nodes find it
-- locked, and come again. (The two-armed chain_advance stays as it is here, for calls that began before.)
create or replace function pgrab.chain_advance(p_ids bigint[], p_results text[]) returns void
language plpgsql as $$
begin
  raise exception using errcode = '55P03', message = 'pgrab is being migrated', hint = 'Try again in a moment; if it stays so, `pgrab migrate` was interrupted: call it again.';
end $$;
comment on function pgrab.chain_advance(bigint[], text[]) is 'Internal: of the schema before 0004. Refuses.';
create or replace function pgrab.chain_end(p_chain bigint) returns void language plpgsql as $$ begin perform pgrab.chain_advance('{}', '{}'); end $$;
create or replace function pgrab.chain_merge(a bigint, b bigint) returns bigint language plpgsql as $$ begin perform pgrab.chain_advance('{}', '{}'); end $$;
create or replace function pgrab.chain_split(p_id bigint) returns void language plpgsql as $$ begin perform pgrab.chain_advance('{}', '{}'); end $$;
create or replace function pgrab.chain_schedule(t pgrab.task) returns void language plpgsql as $$ begin perform pgrab.chain_advance('{}', '{}'); end $$;

alter table pgrab.chain
  alter column pending drop not null,
  add column stuck boolean not null default false;
comment on column pgrab.chain.pending is 'Links of a chain with a schedule that have not ended in this run. Null: the chain runs once, and nothing is counted.';
comment on column pgrab.chain.stuck is 'Of a chain that runs once: a link has been parked, so what is skipped is kept for a retry.';
-- Serves: pgrab.chains, pgrab.chain_runs, pgrab.cancel of a root that has ended.
create index chain_run_idx on pgrab.chain (run);
comment on index pgrab.chain_run_idx is 'The chain that is in a run.';

update pgrab.chain c set pending = null, stuck = exists (select from pgrab.task t where t.chain = c.id and t.status = 'parked') where c.root is null;
delete from pgrab.task t using pgrab.chain c where c.id = t.chain and c.root is null and (t.status in ('done', 'cancelled') or t.status = 'skipped' and not c.stuck);
delete from pgrab.edge e where not exists (select from pgrab.task t where t.id = e.child_id);
delete from pgrab.chain c where not exists (select from pgrab.task t where t.chain = c.id);

create type pgrab.ended as (task_id bigint, version bigint, chain bigint, result text, fire_at timestamptz, counted boolean);
comment on type pgrab.ended is 'Internal: a run whose end is on record. result: of a link whose fire is over with it, what its children go by. counted: its chain has a schedule.';
