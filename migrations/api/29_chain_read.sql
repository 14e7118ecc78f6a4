-- Reading chains: the outputs that a link gets from its parents, a chain drawn as a tree, the results of its
-- runs.  See 28_chain_graph.sql.

create or replace function pgrab_internal.try_jsonb(p_text text) returns jsonb
language plpgsql immutable as $$
begin
  return p_text::jsonb;
exception when others then
  return to_jsonb(p_text);
end $$;
comment on function pgrab_internal.try_jsonb is 'A text as JSON if it is JSON, else as a JSON string.';

create or replace function pgrab_internal.parent_outputs(p_id bigint, p_chain bigint)
returns table (id bigint, name text, kind text, output text)
language plpgsql stable set plan_cache_mode = force_custom_plan set jit = off as $$
#variable_conflict use_column
declare
  c_run constant bigint := (select c.chain_id from pgrab.chain c where c.chain = any (array[p_chain]));
  c_after constant timestamptz := pgrab_internal.chain_after(p_chain);
begin
  return query select o.id, case when o.twice then o.called || '#' || o.id else o.called end, o.kind, o.output
  from (
    select p.id, x.kind, x.output, n.called, count(*) over (partition by n.called) > 1 as twice
    from (
      select a.parent_id as id from pgrab_internal.parents_of(p_id) a
      union
      select g.parent_id from pgrab.edge_change g where g.child_id = p_id and not g.added
      order by 1 limit 100) p
    cross join lateral (
      select (array_agg(r.name order by r.finished_at desc))[1] as name,
        (array_agg(r.kind order by r.finished_at desc))[1] as kind,
        (array_agg(r.output order by r.finished_at desc))[1] as output
      from pgrab.run r
      where r.task_id = any (array[p.id]) and r.chain_id = c_run and r.finished_at > c_after) x
    cross join lateral (select left(coalesce(x.name, p.id::text), 100) as called) n) o;
end $$;
comment on function pgrab_internal.parent_outputs is
  'The first hundred parents of a link, their names and what they have printed in this run.';

-- At most 64 KiB, because it must fit into the environment of a process.  In JSON a character may take six
-- bytes.
create or replace function pgrab_internal.parent_output(p_id bigint, p_chain bigint) returns text
language plpgsql stable as $$
declare
  v_names text[];
  v_outputs text[];
  v_all text;
  v_chars integer;
begin
  select array_agg(o.name order by o.id), array_agg(o.output order by o.id) into v_names, v_outputs
  from pgrab_internal.parent_outputs(p_id, p_chain) o;
  if cardinality(v_names) <= 1 then
    return v_outputs[1];
  end if;
  foreach v_chars in array array[65536, 10000, 1000, 80] loop
    v_all := (
      select jsonb_object_agg(u.name,
        pgrab_internal.try_jsonb(left(u.output, v_chars / cardinality(v_names))))
      from unnest(v_names, v_outputs) u(name, output))::text;
    exit when octet_length(v_all) <= 65536;
  end loop;
  return v_all;
end $$;
comment on function pgrab_internal.parent_output is
  'What the parents of a link have printed in this run of the chain: the text if there is one parent, '
  'otherwise a JSON object by name.';

-- The result of a handler is the last line of its output; what it printed comes before.
create or replace function pgrab_internal.output_json(p_kind text, p_output text) returns jsonb
language plpgsql stable as $$
begin
  if exists (select from pgrab.kind k where k.kind = p_kind and k.handled) then
    return substring(rtrim(p_output, E'\n') from E'[^\n]*$')::jsonb;
  end if;
  return pgrab_internal.try_jsonb(p_output);
exception when others then
  return to_jsonb(p_output);
end $$;
comment on function pgrab_internal.output_json is
  'The output of a run (of a handler, the last line) as JSON if it is JSON, else as a JSON string.';

-- For handlers: an object by name, even for one parent; at most 64 KiB.
create or replace function pgrab_internal.parents_json(p_id bigint, p_chain bigint) returns jsonb
language plpgsql stable as $$
declare
  v_all jsonb;
  v_chars integer;
begin
  foreach v_chars in array array[65536, 10000, 1000, 80] loop
    select jsonb_object_agg(o.name, case when length(o.output) <= v_chars / o.n
        then pgrab_internal.output_json(o.kind, o.output) else to_jsonb(left(o.output, v_chars / o.n)) end)
    into v_all
    from (
      select x.name, x.kind, x.output, (count(*) over ())::integer as n
      from pgrab_internal.parent_outputs(p_id, p_chain) x) o;
    exit when octet_length(v_all::text) <= 65536;
  end loop;
  return coalesce(v_all, '{}');
end $$;
comment on function pgrab_internal.parents_json is
  'What the parents of a link have returned or printed in this run of the chain, by name.';

-- {{parent_output}} in any text of args is replaced by the output as text; "{{parent_json}}", alone in its
-- quotes, by the output as JSON, last, so that what a parent has printed is not replaced in turn.
-- Hazard: a text of a megabyte may name the output 60000 times.
create or replace function pgrab_internal.args_filled(p_args text, p_output text) returns jsonb
language plpgsql immutable as $$
declare
  c_most constant integer := 2097152; -- what args may have, and as much again
  c_as constant text[][] := array[['{{parent_output}}', substr(to_json(p_output)::text, 2,
    length(to_json(p_output)::text) - 2)], ['"{{parent_json}}"', pgrab_internal.try_jsonb(p_output)::text]];
  v_args text := p_args;
  v_times bigint;
begin
  for i in 1 .. 2 loop
    v_times := (length(v_args) - length(replace(v_args, c_as[i][1], ''))) / length(c_as[i][1]);
    if octet_length(v_args) + v_times * octet_length(c_as[i][2]) > c_most then
      raise exception using errcode = 'program_limit_exceeded',
        message = format('args name what the parents have printed %s times, which makes more than 2 MiB',
          v_times);
    end if;
    v_args := replace(v_args, c_as[i][1], c_as[i][2]);
  end loop;
  return v_args::jsonb;
end $$;
comment on function pgrab_internal.args_filled is
  'The args of a task with what its parents have printed, as the second argument.';

-- For shell and exec the output of the parents is also in PGRAB_PARENT_OUTPUT.  What cannot be filled must
-- not fail the statement, which starts others, too: an answer that no node can read is the reason why this
-- task is not executed.
create or replace function pgrab_internal.args_for(p_id bigint, p_chain bigint, p_kind text, p_args jsonb)
returns text
language plpgsql stable as $$
declare
  c_process constant boolean := p_kind in ('shell', 'exec');
  c_handled constant boolean := pgrab_internal.args_known(p_kind) is null
    and exists (select from pgrab.kind k where k.kind = p_kind and k.handled);
  c_text constant text := p_args::text;
  v_output text;
  v_args jsonb := p_args;
begin
  if c_text = '{}' and not c_process and not c_handled then
    return null;
  elsif not c_process and c_text not like '%{{parent_%' and not (c_handled and p_chain is not null)
    or not exists (select from pgrab_internal.parents_of(p_id)) then
    return case when c_handled then pgrab_internal.netstring('args') || pgrab_internal.netstring(c_text)
      else c_text end;
  end if;
  v_output := coalesce(pgrab_internal.parent_output(p_id, p_chain), '');
  if c_text like '%{{parent_%' then
    begin
      v_args := pgrab_internal.args_filled(c_text, v_output);
    exception when data_exception or program_limit_exceeded then
      return 'args cannot be filled: ' || sqlerrm;
    end;
  end if;
  if c_handled then
    return concat(pgrab_internal.netstring('args') || pgrab_internal.netstring(v_args::text),
      pgrab_internal.netstring('parents')
        || pgrab_internal.netstring(pgrab_internal.parents_json(p_id, p_chain)::text));
  end if;
  return concat(v_args, case when c_process then
    pgrab_internal.netstring('env') || pgrab_internal.netstring('PGRAB_PARENT_OUTPUT=' || v_output) end);
end $$;
comment on function pgrab_internal.args_for(bigint, bigint, text, jsonb) is
  'The args of a task for its node, with what its parents have printed; or why they cannot be had.';

-- What came with the signal goes where the kind has a place for it: PGRAB_SIGNAL, the body or payload if args
-- have none, and otherwise `signal`, which kind sql makes $1 and handlers find as ctx.signal.
create or replace function pgrab_internal.args_signal(p_kind text, p_args jsonb, p_payload jsonb,
  out args jsonb, out more text)
language sql immutable
begin atomic
  select case when p_kind = 'http' and not p_args ? 'body' and p_payload <> 'null'
      then p_args || jsonb_build_object('body', p_payload::text)
    when p_kind = 'notify' and not p_args ? 'payload' and octet_length(p_payload::text) < 8000
      then p_args || jsonb_build_object('payload', p_payload::text)
    else p_args end,
    case when p_kind in ('shell', 'exec')
      then pgrab_internal.netstring('env') || pgrab_internal.netstring('PGRAB_SIGNAL=' || p_payload::text)
    when p_kind not in ('http', 'notify', 'noop')
      then pgrab_internal.netstring('signal') || pgrab_internal.netstring(p_payload::text) else '' end;
end;
comment on function pgrab_internal.args_signal is
  'The args of a task with the payload of its signal, and what comes behind them.';

-- p_fire_at: of a task that has steps; null: it has none.
create or replace function pgrab_internal.args_for(
  p_id bigint, p_chain bigint, p_kind text, p_args jsonb, p_wait_for text, p_fire_at timestamptz default null)
returns text
language plpgsql stable as $$
declare
  s record;
  v_args text;
begin
  if p_wait_for is null then
    v_args := pgrab_internal.args_for(p_id, p_chain, p_kind, p_args);
  else
    select a.* into s
    from (select coalesce((select x.payload from pgrab.signal x
        where x.task_id = p_id and x.name = p_wait_for), 'null') as payload) p
      cross join lateral pgrab_internal.args_signal(p_kind, p_args, p.payload) a;
    v_args := coalesce(pgrab_internal.args_for(p_id, p_chain, p_kind, s.args), '{}') || s.more;
  end if;
  return case when p_fire_at is null then v_args
    else concat(coalesce(v_args, '{}'), pgrab_internal.steps_for(p_id, p_fire_at, p_kind)) end;
end $$;
comment on function pgrab_internal.args_for(bigint, bigint, text, jsonb, text, timestamptz) is
  'The args of a task for its node, with what its parents have printed, what came with its signal, and the '
  'names of the steps that its fire has done.';

-- Makes a tree of a graph.  No path is followed twice, however many there are.
create or replace function pgrab_internal.chain_order(p_ids bigint[], p_parents bigint[], p_children bigint[])
returns table (id bigint, root bigint, depth integer, path bigint[])
language sql stable
begin atomic
  with recursive edge(parent, child) as materialized (
    select * from unnest(p_parents, p_children)),
  down(id, depth) as (
    select i.id, 0 from unnest(p_ids) i(id) where i.id not in (select e.child from edge e)
    union
    select e.child, d.depth + 1 from down d join edge e on e.parent = d.id),
  place as materialized (
    select d.id, max(d.depth) as depth from down d group by d.id),
  twig as materialized (
    select distinct on (e.child) e.child, e.parent
    from edge e join place p on p.id = e.parent order by e.child, p.depth desc, p.id),
  walk(id, root, depth, path) as (
    select p.id, p.id, 0, array[p.id] from place p where p.depth = 0
    union all
    select t.child, w.root, w.depth + 1, w.path || t.child from walk w join twig t on t.parent = w.id)
  select * from walk;
end;
comment on function pgrab_internal.chain_order is
  'Depth and place of each task of a chain, for drawing it: each once, below its deepest parent.';

-- The definition in the last row of a link's history says which parents it had.
create or replace function pgrab_internal.links_left(p_chain_id bigint) returns setof pgrab_internal.run
language plpgsql stable set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  c_after constant timestamptz := (
    select coalesce(min(pgrab_internal.chain_after(c.chain)), '-infinity')
    from pgrab.chain c where c.chain_id = p_chain_id);
begin
  return query select r.* from pgrab.run r
  where r.chain_id = p_chain_id and r.ended is not null and r.finished_at > c_after and not exists (
    select from pgrab.task t
    where t.id = any (array[r.task_id])
      and t.chain in (select c.chain from pgrab.chain c where c.chain_id = p_chain_id));
end $$;
comment on function pgrab_internal.links_left is
  'The last run of each link that has ended and left the chain, in one run of the chain.';

-- When a run of a chain with a schedule is over, its links stay for the next run.  The first parent is the
-- one that the link had in that run; further parents (pgrab.edge) are the present ones.
create or replace function pgrab_internal.links_past(p_chain_id bigint)
returns table (id bigint, name text, kind text, status text, outcome text, started_at timestamptz,
  finished_at timestamptz, parents bigint[])
language sql stable
begin atomic
  with last as (
    select distinct on (r.task_id) r.* from pgrab.run r
    where r.chain_id = p_chain_id
    order by r.task_id, r.finished_at desc)
  select l.task_id, coalesce(l.name, l.key), l.kind,
    case when l.outcome in ('skipped', 'missed') then 'skipped' when l.outcome = 'cancelled' then 'cancelled'
      when l.outcome = 'succeeded' then 'done' else 'failed' end,
    l.outcome, l.started_at, l.finished_at,
    array(
      select p.id from (
        select case when d.definition is not null then (d.definition ->> 'parent_id')::bigint
            when t.id is not null then t.parent_id
            else (pgrab.definition_of(l.task_id, l.version) ->> 'parent_id')::bigint end as id
        union select e.parent_id from pgrab.edge e where e.child_id = l.task_id) p
      where p.id in (select x.task_id from last x))
  from last l left join pgrab.task t on t.id = l.task_id
    left join lateral ( -- as definition_of() does, which takes a millisecond for each
      select x.definition from pgrab.definition x
      where x.task_id = l.task_id and x.version <= l.version order by x.version desc limit 1) d on true
  where l.ended is null;
end;
comment on function pgrab_internal.links_past is 'The links of a past run of a chain with a schedule.';

-- Finds rows by keys alone, whatever its caller has set.
create or replace function pgrab_internal.chain_links(p_chain_id bigint)
returns table (id bigint, name text, kind text, status text, outcome text, started_at timestamptz,
  finished_at timestamptz, parents bigint[])
language plpgsql stable set enable_seqscan = off set enable_nestloop = on set enable_hashjoin = off
set enable_mergejoin = off set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
  return query
  select t.id, coalesce(t.name, t.key), t.kind, t.status,
    case when t.status in ('skipped', 'cancelled') then t.status
      when t.status in ('done', 'parked')
          or t.attempt > case when pgrab_internal.under_way(t.status, t.incarnation) then 1 else 0 end
        then t.last_outcome end,
    case when t.status = 'running' or t.attempt > 0 then t.started_at end,
    case when t.status in ('done', 'parked') then t.last_finished_at end,
    array(select p.parent_id from pgrab_internal.parents_of(t.id) p)
  from pgrab.chain c join pgrab.task t on t.chain = c.chain
  where c.chain_id = p_chain_id
  union all
  select r.task_id, coalesce(r.name, r.key), r.kind, r.ended, r.outcome, r.started_at, r.finished_at,
    array(
      select (p.value ->> 'parent_id')::bigint
      from jsonb_array_elements(
        jsonb_build_array(r.definition) || coalesce(r.definition -> 'parents', '[]')) p
      where p.value ->> 'parent_id' is not null)
  from pgrab_internal.links_left(p_chain_id) r;
  if not exists (select from pgrab.chain c where c.chain_id = p_chain_id) then
    return query select * from pgrab_internal.links_past(p_chain_id);
  end if;
end $$;
comment on function pgrab_internal.chain_links is
  'The links of one run of a chain (pgrab.run.chain_id): those in pgrab.task, those that have ended and '
  'left, and those of a past run.';

-- Hash joins only: with any other join, a chain that is wider than the statistics know would take time
-- quadratic in its width.
create or replace function pgrab_internal.chain_tree(p_chain_id bigint)
returns table (root bigint, depth integer, task text, id bigint, kind text, status text, outcome text,
  started_at timestamptz, finished_at timestamptz, path bigint[])
language plpgsql stable set enable_hashjoin = on set enable_mergejoin = off set enable_nestloop = off
set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
  return query
  with link as materialized (
    select * from pgrab_internal.chain_links(p_chain_id)),
  graph as (
    select array_agg(distinct l.id) as ids, array_agg(p.id) filter (where p.id is not null) as parents,
      array_agg(l.id) filter (where p.id is not null) as children
    from link l left join lateral unnest(l.parents) p(id) on true)
  select o.root, o.depth, coalesce(l.name, '#' || l.id), l.id, l.kind, l.status, l.outcome, l.started_at,
    l.finished_at, o.path
  from graph g cross join lateral pgrab_internal.chain_order(g.ids, g.parents, g.children) o
    join link l on l.id = o.id;
end $$;
comment on function pgrab_internal.chain_tree is
  'The links of one run of a chain and their places in its tree.';

create or replace function pgrab_tool.chain_of(p_id bigint)
returns table (root bigint, depth integer, task text, id bigint, kind text, status text, outcome text,
  started_at timestamptz, finished_at timestamptz, path bigint[])
language sql stable
begin atomic
  select l.root, l.depth, l.task, l.id, l.kind, l.status, l.outcome, l.started_at, l.finished_at, l.path
  from pgrab_internal.chain_tree(coalesce(
    (select c.chain_id from pgrab.task t join pgrab.chain c on c.chain = t.chain where t.id = p_id),
    (select r.chain_id from pgrab.last_run(p_id, 'ended') r))) l;
end;
comment on function pgrab_tool.chain_of is
  'The chain that a task is, or last was, a link of, drawn as in pgrab.chains, all its roots in one pass.';

-- What a chain looks like is read with the rights of pgrab's owner: so first the caller must see some of it.
create or replace function pgrab_internal.chain_seen(p_chain_id bigint) returns bigint
language sql stable
begin atomic
  select p_chain_id
  where exists (select from pgrab.chain c where c.chain_id = p_chain_id)
    or exists (select from pgrab.run r where r.chain_id = p_chain_id);
end;
comment on function pgrab_internal.chain_seen is 'The run of a chain, if the caller sees anything of it.';

create or replace function pgrab.chain_run(p_chain_id bigint)
returns table (root bigint, depth integer, task text, id bigint, kind text, status text, outcome text,
  started_at timestamptz, finished_at timestamptz, path bigint[])
language sql stable
begin atomic
  select l.* from pgrab_internal.chain_tree(pgrab_internal.chain_seen(p_chain_id)) l;
end;
comment on function pgrab.chain_run(bigint) is
  'One run of a chain (pgrab.chain_runs), past or present, drawn as in pgrab.chains: order by path. A link '
  'with several parents is shown below the deepest.';

create or replace view pgrab.chains as
select o.root, o.depth, repeat('  ', o.depth) || left(o.task, 40) as task, o.id, o.kind, o.status, o.outcome,
  date_trunc('second', o.started_at) as started_at, date_trunc('second', o.finished_at) as finished_at, o.path
from (
  select t.id, c.chain_id
  from pgrab.task t join pgrab.chain c on c.chain = t.chain
  where t.parent_id is null and not exists (select from pgrab.edge e where e.child_id = t.id)
  union all
  select t.task_id, t.chain_id
  from pgrab.run t
  where t.chain_id is not null and t.ended is not null
    and not coalesce(t.definition ?| array['parent_id', 'parents'], false)
    and not exists (select from pgrab.task x where x.id = t.task_id)) r
cross join lateral pgrab_internal.chain_tree(r.chain_id) o
where o.root = r.id;
comment on view pgrab.chains is
  'The chains, drawn as trees, one row per link: select * from pgrab.chains where root = 17 order by path. A '
  'link with several parents is shown below the deepest.';
comment on column pgrab.chains.root is 'The root of the chain.';
comment on column pgrab.chains.depth is 'How many links are above it.';
comment on column pgrab.chains.task is 'Name of the link (its number, if it has none), indented.';
comment on column pgrab.chains.id is 'Number of the task.';
comment on column pgrab.chains.kind is 'What carries it out.';
comment on column pgrab.chains.status is
  'Where it is in this run of the chain; of an ended chain, how it ended.';
comment on column pgrab.chains.outcome is 'Outcome of its last run in this run of the chain.';
comment on column pgrab.chains.started_at is 'When that run began.';
comment on column pgrab.chains.finished_at is 'When that run ended.';
comment on column pgrab.chains.path is 'The way down to it: order by this.';

create or replace view pgrab.chain_runs as
select x.chain_id, x.tasks[1] as root, x.names[1] as name, x.fire_at,
  date_trunc('second', x.started_at) as started_at,
  date_trunc('second', case when x.over then x.finished_at end) as finished_at,
  x.links, x.failed, x.skipped,
  case when not x.over then 'running' when x.cancelled > 0 then 'cancelled' when x.failed > 0 then 'failed'
    when x.skipped = x.links then 'skipped' else 'succeeded' end as result
from (
  select l.chain_id, array_agg(l.task_id order by l.started_at nulls last, l.task_id) as tasks,
    array_agg(coalesce(l.name, l.key) order by l.started_at nulls last, l.task_id) as names,
    min(l.fire_at) as fire_at,
    min(l.started_at) as started_at, max(l.finished_at) as finished_at, count(*) as links,
    count(*) filter (where pgrab_tool.run_is_failure(l.outcome)) as failed,
    count(*) filter (where l.outcome in ('skipped', 'missed')) as skipped,
    count(*) filter (where l.outcome = 'cancelled') as cancelled,
    not exists (
      select from pgrab.chain c
      where c.chain_id = l.chain_id and (c.root is not null and c.pending > 0 or c.root is null and exists (
        select from pgrab.task t
        where t.chain = c.chain and not pgrab_internal.ended(t.status)))) as over
  from (
    select distinct on (r.chain_id, r.task_id) r.*
    from pgrab.run r where r.chain_id is not null
    order by r.chain_id, r.task_id, r.finished_at desc) l
  group by l.chain_id) x;
comment on view pgrab.chain_runs is 'One row per run of a chain: when it ran, and the result.';
comment on column pgrab.chain_runs.chain_id is 'Number of the chain run: pgrab.run.chain_id.';
comment on column pgrab.chain_runs.root is 'The link that began it.';
comment on column pgrab.chain_runs.name is 'Its name, or its key.';
comment on column pgrab.chain_runs.fire_at is 'The planned time.';
comment on column pgrab.chain_runs.started_at is 'When the first link began.';
comment on column pgrab.chain_runs.finished_at is 'When the last link ended. Null: the chain is running.';
comment on column pgrab.chain_runs.links is 'Links that have ended.';
comment on column pgrab.chain_runs.failed is
  'Of these, those whose last attempt failed, timed out or was lost.';
comment on column pgrab.chain_runs.skipped is 'Of these, those that were skipped.';
comment on column pgrab.chain_runs.result is
  'running; succeeded: every link that was not skipped succeeded; failed; cancelled; skipped: no link ran.';

-- Backwards from the link that is still running, or that ended last: what each of them waited for longest.
create or replace function pgrab_internal.chain_critical(
  p_ids bigint[], p_ends timestamptz[], p_children bigint[], p_parents bigint[]) returns bigint[]
language plpgsql immutable as $$
declare
  c_end constant jsonb := (
    select jsonb_object_agg(u.id, extract(epoch from u.at)) from unnest(p_ids, p_ends) u(id, at)
    where u.at is not null);
  c_before constant jsonb := (
    select jsonb_object_agg(x.child, x.parent)
    from (
      select distinct on (u.child) u.child, u.parent from unnest(p_children, p_parents) u(child, parent)
      where c_end ? u.parent::text
      order by u.child, (c_end ->> u.parent::text)::numeric desc, u.parent) x);
  v_at bigint := (
    select u.id from unnest(p_ids, p_ends) u(id, at) where u.at is not null order by u.at desc, u.id limit 1);
  v_found bigint[] := '{}';
begin
  while v_at is not null and v_at <> all (v_found) loop
    v_found := v_found || v_at;
    v_at := (c_before ->> v_at::text)::bigint;
  end loop;
  return v_found;
end $$;
comment on function pgrab_internal.chain_critical is
  'The links that decided when a chain ended, the last first. p_ends: when each link ended, infinity if it '
  'runs, null if it did not run.';

create or replace function pgrab_internal.chain_graph(p_chain_id bigint)
returns table (id bigint, name text, kind text, status text, outcome text, depth integer, parents bigint[],
  started_at timestamptz, finished_at timestamptz, waited float8, seconds float8, critical boolean)
language plpgsql stable set enable_hashjoin = on set enable_mergejoin = off set enable_nestloop = off
set jit = off set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
  return query
  with link as materialized (
    select l.*, case when l.status = 'running' then timestamptz 'infinity'
      when l.started_at is not null then l.finished_at end as ends
    from pgrab_internal.chain_links(p_chain_id) l),
  edge as materialized (
    select l.id as child, p.id as parent from link l cross join lateral unnest(l.parents) p(id)),
  graph as (
    select (select array_agg(l.id) from link l) as ids, (select array_agg(l.ends) from link l) as ends,
      array_agg(e.parent) as parents, array_agg(e.child) as children
    from edge e),
  late as (
    select e.child, max(p.finished_at) as at from edge e join link p on p.id = e.parent group by 1),
  critical as (
    select u.id from graph g cross join lateral unnest(
      pgrab_internal.chain_critical(g.ids, g.ends, g.children, g.parents)) u(id))
  select l.id, coalesce(l.name, '#' || l.id), l.kind, l.status, l.outcome, o.depth,
    array(select p.id from unnest(l.parents) p(id) order by 1), l.started_at,
    l.finished_at, round(extract(epoch from l.started_at - a.at), 3)::float8,
    round(extract(epoch from case when l.status = 'running' then statement_timestamp() else l.finished_at end
      - l.started_at), 3)::float8,
    c.id is not null
  from graph g cross join lateral pgrab_internal.chain_order(g.ids, g.parents, g.children) o
    join link l on l.id = o.id left join late a on a.child = l.id left join critical c on c.id = l.id
  order by o.depth, o.path;
end $$;
comment on function pgrab_internal.chain_graph is 'The links of one run of a chain, with their times.';

create or replace function pgrab.chain_graph(p_chain_id bigint)
returns table (id bigint, name text, kind text, status text, outcome text, depth integer, parents bigint[],
  started_at timestamptz, finished_at timestamptz, waited float8, seconds float8, critical boolean)
language sql stable
begin atomic
  select l.* from pgrab_internal.chain_graph(pgrab_internal.chain_seen(p_chain_id)) l;
end;
comment on function pgrab.chain_graph(bigint) is
  'One run of a chain (pgrab.chain_runs) with its parents and times: how many links are above each; waited: '
  'the seconds from the end of its last parent to its start; critical: it is on the path that decided when '
  'the run ended, or decides it now.';
