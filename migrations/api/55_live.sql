-- What a run has printed so far.  Its node has the output, and writes it to the database only when asked.  A
-- function cannot wait for what another transaction commits, so it returns what the node wrote last, and asks
-- for newer output; a second call, a moment later, finds that.

create type pgrab_internal.output_seen as (
  version bigint, running boolean, pending boolean, total bigint, unbroken integer, output text,
  attempt integer, outcome text, error text, node text, told_at timestamptz, truncated boolean);
comment on type pgrab_internal.output_seen is 'What is known of the output of a run.';

create or replace function pgrab_internal.output_look(
  p_id bigint, p_version bigint, p_ask boolean, p_visible boolean) returns pgrab_internal.output_seen
language plpgsql as $$
declare
  t pgrab_internal.task;
  o pgrab_internal.output_seen;
begin
  if p_visible is not true then
    perform pgrab_tool.no_task(p_id);
  end if;
  select * into t from pgrab.task x where x.id = p_id;
  if t.status = 'running' and t.version = coalesce(p_version, t.version) then
    if p_ask and not current_setting('transaction_read_only')::boolean and not exists (
        select from pgrab.live_request r
        where r.incarnation = t.incarnation and r.task_id = t.id and r.version = t.version) then
      insert into pgrab.live_request (incarnation, task_id, version) values (t.incarnation, t.id, t.version);
      perform pg_notify('pgrab', 'output ' || t.node_id);
    end if;
    select t.version, true, exists (
        select from pgrab.live_request r
        where r.incarnation = t.incarnation and r.task_id = t.id and r.version = t.version),
      l.total, l.unbroken, l.output, t.attempt, null, null,
      (select n.name from pgrab.node n where n.id = t.node_id), l.told_at, false into o
    from (select) one left join pgrab.live_output l
      on l.incarnation = t.incarnation and l.task_id = t.id and l.version = t.version;
    return o;
  end if;
  select r.version, false, false, null, null, coalesce(r.output, ''), r.attempt, r.outcome, r.error, r.node,
    r.finished_at, r.output_truncated into o
  from pgrab.last_run(p_id, 'ran', p_version) r;
  return o;
end $$;
comment on function pgrab_internal.output_look is
  'What is known of the output of a run: the one with p_version, or else the current or last one. With '
  'p_ask it asks for more, if the run is in progress and no earlier request waits. p_visible: the caller '
  'may see the task.';

create or replace function pgrab_tool.output_of(
  p_id bigint, p_version bigint default null, p_ask boolean default true)
returns table (version bigint, running boolean, pending boolean, total bigint, unbroken integer, output text,
  attempt integer, outcome text, error text, node text, told_at timestamptz, truncated boolean)
language sql
begin atomic
  select l.* from pgrab_internal.output_look(p_id, p_version, p_ask,
    exists (select from pgrab.task t where t.id = p_id)
    or exists (select from pgrab.last_run(p_id))) l;
end;
comment on function pgrab_tool.output_of is
  'Like pgrab.output(), with all that is known: for programs that follow a run. p_version: which run (null: '
  'the current or last one); pending: its node has been asked and has not answered yet; total: bytes '
  'printed by told_at; unbroken: how many bytes at the end of output have no gap in them.';

create or replace function pgrab.output(p_id bigint) returns text
language sql
return (select o.output from pgrab_tool.output_of(p_id) o);
comment on function pgrab.output(bigint) is
  'What a task has printed, at most 64 KiB, head and tail. For a running task: what its node wrote down at '
  'the last request; this call requests newer output, so call again a moment later (in psql: \watch 1). '
  'Null: this is the first request, or the task has never run. For a task that is not running: the output of '
  'its last run.';
create or replace function pgrab.output(p_task text) returns text
language sql
return pgrab.output(pgrab_tool.id_of(p_task));
comment on function pgrab.output(text) is 'The same for a task given by its key or its name.';

-- Between two attempts, and while it runs, a task has no result.
create or replace function pgrab.result(p_id bigint) returns table (outcome text, value jsonb, error text)
language sql stable
begin atomic
  select r.outcome, pgrab_internal.output_json(r.kind, r.output), r.error
  from pgrab.last_run(p_id) r left join pgrab.task t on t.id = p_id
  where r.outcome <> 'waited' and (t.id is null or pgrab_internal.ended(t.status)
    or t.schedule is not null and t.attempt = 0);
end;
comment on function pgrab.result(bigint) is
  'How the last fire of a task has ended, with what its handler returned or it printed, as JSON if it is '
  'JSON, else as a JSON string. No row: it has not ended yet, or the history does not know it.';
create or replace function pgrab.result(p_task text) returns table (outcome text, value jsonb, error text)
language sql stable
begin atomic
  select * from pgrab.result(pgrab_tool.id_of(p_task));
end;
comment on function pgrab.result(text) is 'The same for a task given by its key or its name.';
