-- Limits: who keeps a place, and who stands in line. (What real nodes make of it: tests/system/test_limits.py.)
begin;
select plan(5);
set local timezone = 'UTC';

-- What a node does with a task that is due; true: it runs.
create function pg_temp.starts(p_id bigint) returns boolean language plpgsql as $$
begin
  update pgrab.task set status = 'claimed', version = 6, node_id = 1, incarnation = 11, claimed_at = now() where id = p_id and status = 'scheduled' and due_at is not null;
  perform from pgrab_internal.limit_take(array[p_id], array[6], 11);
  update pgrab.task set status = 'running', version = 7, attempt = 1, started_at = now() where id = p_id and status = 'claimed' and found;
  return found;
end $$;

insert into pgrab.limit (key, max_running) values ('a', 1), ('b', 1);
insert into pgrab.task (id, kind, limit_key) overriding system value values (1, 'noop', 'a'), (2, 'noop', 'a');
select is(pg_temp.starts(1), true, 'one at a time');
select is(pg_temp.starts(2), false, 'the second stands in line');
update pgrab.task set limit_key = 'b' where id = 1;
select pgrab_internal.limit_tick();
select is((select due_at from pgrab.task where id = 2), null, 'a run keeps its place when its task is given another key');
update pgrab.limit set key = 'c' where key = 'a';
select isnt((select due_at from pgrab.task where id = 2), null, 'a limit that is renamed leaves nobody in its line');
select is(pg_temp.starts(2), true, 'and the old key does not limit any more');

select * from finish();
rollback;
