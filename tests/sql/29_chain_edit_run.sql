-- What people do to a chain while it runs: a run follows the graph that it began with.
begin;
\ir chain.inc
select plan(11);
set local timezone = 'UTC';
set local client_min_messages = error;

-- a link whose edge is gone counts on
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1h');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1);
insert into pgrab.task (id, kind, parent_id, wait_for) overriding system value values (3, 'noop', 1, 'go');
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 3);
insert into pgrab.edge values (2, 4, 'always');
select pgrab.run_now(1);
select pg_temp.ends(1);
select pg_temp.ends(2, 'failed');
delete from pgrab.edge where child_id = 4;
select pgrab.retry(2);
select is(pg_temp.ends(2), '1+ 2+ 3. 4.', 'a parent that is retried is not counted twice');
select pgrab.signal(3, 'go');
select pg_temp.ends(3);
select is(pg_temp.chain(), '1+ 2+ 3+ 4!', 'it starts after its other parent');
select pg_temp.fresh();

-- a link that was moved below the retried one does not come back for that
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1h');
insert into pgrab.task (id, kind, parent_id) overriding system value values (2, 'noop', 1), (3, 'noop', 1);
insert into pgrab.task (id, kind, parent_id) overriding system value values (4, 'noop', 3);
insert into pgrab.task (id, kind, parent_id, wait_for) overriding system value values (5, 'noop', 1, 'go');
select pgrab.run_now(1);
select pg_temp.ends(1);
select pg_temp.ends(2, 'failed');
select pg_temp.ends(3, 'failed');
select is(pg_temp.chain(), '1+ 2- 3- 4o 5.', 'two have failed');
update pgrab.task set parent_id = 2 where id = 4;
select pgrab.retry(2);
select is(pg_temp.chain(), '1+ 2! 3- 4o 5.', 'in this run it hangs below the other');
select pgrab.retry(3);
select is(pg_temp.chain(), '1+ 2! 3! 4. 5.', 'with which it comes back');
select pg_temp.fresh();

-- several at once
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id) overriding system value
select i, 'noop', 1 from generate_series(2, 4) i;
insert into pgrab.task (id, kind, parent_id) overriding system value values (5, 'noop', 2);
insert into pgrab.edge values (3, 5, 'success');
select pg_temp.ends(1);
select pg_temp.ends(i, 'failed') from generate_series(2, 4) i;
select pgrab.retry(array[2, 3, 4]);
select is(pg_temp.chain(), '1+ 2! 3! 4! 5.', 'all are retried together');
select is((select needs from pgrab.task where id = 5), 2, 'and what waits for two of them for both');
select pg_temp.fresh();

-- a root and links of it
insert into pgrab.task (id, kind, schedule) overriding system value values (1, 'noop', '@every 1h');
insert into pgrab.task (id, kind, parent_id, wait_for) overriding system value values (2, 'noop', 1, 'go');
insert into pgrab.task (id, kind, parent_id) overriding system value values (3, 'noop', 2);
select pgrab.run_now(1);
select pg_temp.ends(1);
select is(string_agg(c.id || ' ' || c.status, ', ' order by c.id), '1 cancelled, 2 cancelled, 3 cancelled',
  'cancel of a root and its links')
from pgrab.cancel(array[1, 2, 3]) c;
select is(pg_temp.chain(), '1! 2. 3.', 'gives up this run, not the next');
select pg_temp.fresh();

-- a link whose handler waits has begun: no parent counts for it any more
insert into pgrab.task (id, kind) overriding system value values (1, 'noop');
insert into pgrab.task (id, kind, parent_id, run_if) overriding system value values
  (2, 'noop', 1, 'always'), (3, 'noop', 1, 'failure');
select pg_temp.ends(1, 'failed');
update pgrab.task set status = 'waiting', steps = 1, due_at = null, version = version + 1 where id in (2, 3);
select pgrab.retry(1);
select pg_temp.ends(1);
select is((select string_agg(concat_ws(' ', t.id, t.status, t.needs), ', ' order by t.id) from pgrab.task t),
  '2 waiting 0, 3 waiting 0', 'it goes on waiting for its signal');
select pg_temp.fresh();

-- a batch and its members come back together
insert into pgrab.task (id, kind, args) overriding system value values (901, 'batch', '{"max_running": 2}');
insert into pgrab.task (id, kind, batch) overriding system value values (902, 'noop', 901);
select pgrab.delete(array[901, 902]);
select pgrab.undelete(array[901, 902]);
select is((select string_agg(t.kind || ' ' || coalesce(b.kind, ''), ', ' order by t.id)
  from pgrab.task t left join pgrab.task b on b.id = t.batch),
  'batch , noop batch', 'a member is in its batch again');

select * from finish();
rollback;
