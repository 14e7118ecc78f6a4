-- What pgrab serve offers to programs, and SQL to any user: tasks as JSON, tokens, and how many workers the
-- backlog needs.

create or replace function pgrab_tool.members_check(p_task jsonb) returns void
language plpgsql security definer as $$
declare
  v_member text;
begin
  if jsonb_typeof(p_task) is distinct from 'object' or p_task = '{}' then
    raise exception using errcode = '22023', message = 'a task is a JSON object with at least one member',
      hint = 'For example {"kind": "sql", "command": "select 1"}.';
  end if;
  select k into v_member from jsonb_object_keys(p_task) k
  where k <> all (pgrab_internal.written() || '{parents}'::text[]) limit 1;
  if found then
    raise exception using errcode = '22023', message = format('%s is not a column that can be set', v_member),
      hint = 'Give columns of pgrab.task that users can write, and parents.';
  end if;
end $$;
comment on function pgrab_tool.members_check is 'Refuses members of a task that are not columns of it.';

create or replace function pgrab.add(p_task jsonb) returns setof pgrab_internal.task
language plpgsql as $$
declare
  v_want jsonb;
  v_parents bigint[];
  v_id bigint;
begin
  perform pgrab_tool.members_check(p_task);
  v_want := p_task - 'parents';
  if p_task ? 'parents' then
    v_parents := pgrab_tool.ids_of(array(select jsonb_array_elements_text(p_task -> 'parents')));
    v_want := v_want || jsonb_build_object('parent_id', v_parents[1]);
  end if;
  v_id := pgrab_tool.add(v_want);
  if cardinality(v_parents) > 1 then -- only then the caller needs rights to pgrab.edge
    insert into pgrab.edge (parent_id, child_id, run_if)
    select p, v_id, coalesce(p_task ->> 'run_if', 'success') from unnest(v_parents[2:]) p;
  end if;
  return query select t.* from pgrab.task t where t.id = v_id;
end $$;
comment on function pgrab.add(jsonb) is
  'Inserts a task, given as a JSON object of columns of pgrab.task; `parents` is an array of ids, keys or '
  'names.';

-- A schedule is more than one request's.
create or replace function pgrab_tool.traced(p_task jsonb, p_traceparent text) returns jsonb
language sql stable
return case when pgrab_internal.traceparent_fine(p_traceparent) and jsonb_typeof(p_task) = 'object'
    and not p_task ? 'traceparent' and p_task ->> 'schedule' is null
  then p_task || jsonb_build_object('traceparent', p_traceparent) else p_task end;
comment on function pgrab_tool.traced is 'A task for add(), in the trace of the request that asks for it.';

-- The row is read again, because what UPDATE returns is older than what triggers make of it (its next fire).
create or replace function pgrab.edit(p_id bigint, p_changes jsonb) returns setof pgrab_internal.task
language plpgsql as $$
begin
  perform pgrab_tool.members_check(p_changes);
  if p_changes ? 'parents' then
    raise exception using errcode = '22023', message = 'parents cannot be changed here',
      hint = 'Insert into and delete from pgrab.edge, or set parent_id.';
  end if;
  perform from pgrab_tool.edit(p_id, p_changes);
  if not found then
    raise exception using errcode = 'P0002', message = format('there is no live task %s', p_id),
      hint = 'select * from pgrab.tasks shows what there is. A task that has ended cannot be edited.';
  end if;
  return query select t.* from pgrab.task t where t.id = p_id;
end $$;
comment on function pgrab.edit(bigint, jsonb) is
  'Changes columns of a task, given as a JSON object of the new values; null sets null.';

-- Runs that end per second, times the seconds of each, is how many are at work on average; their slots
-- should be busy 80 % of the time.  More are added to work off what is due within p_within seconds.
create or replace function pgrab_internal.scale_workers(
  p_due bigint, p_running bigint, p_per_second float8, p_seconds float8, p_within float8)
returns bigint
language sql immutable parallel safe
return greatest(
  ceil(p_per_second * p_seconds / 0.8 + p_due * p_seconds / p_within)::bigint, p_running,
  case when p_due > 0 then 1 else 0 end);
comment on function pgrab_internal.scale_workers is 'How many workers, or slots of a pool, a load needs.';

-- Of groups that overlap each counts what it could run, but not what needs none of its labels: that would
-- start nodes of a costly group for work that any node can do.
create or replace function pgrab_internal.scale_counts(
  p_kind text, p_require jsonb, p_kinds text[], p_labels jsonb)
returns boolean
language sql immutable parallel safe
return (p_kinds is null or p_kind = any (p_kinds)) and (p_labels is null
  or p_labels @> p_require and (p_labels = '{}' or p_require <> '{}'));
comment on function pgrab_internal.scale_counts is
  'Is a task of this kind and require one for a group of nodes with these kinds and labels? Null: of any.';

-- Looks at the last 2000 runs at most, of the last ten minutes.
create or replace function pgrab_internal.scale_runs(p_kinds text[], p_labels jsonb)
returns table (kind text, runs bigint, took float8, per_second float8, took_slots float8)
language sql stable
begin atomic
  with r as materialized (
    select r.kind, r.finished_at, r.task_id, r.definition,
      extract(epoch from r.finished_at - coalesce(r.started_at, r.claimed_at)) as took,
      case when (select pgrab_internal.any_slots())
        then pgrab_tool.run_slots(r.task_id, r.definition) else 1 end as slots
    from pgrab.run r
    where r.finished_at > statement_timestamp() - interval '10 minutes'
      and r.outcome not in ('skipped', 'missed', 'waited')
    order by r.finished_at desc limit 2000),
  s as materialized (
    select least(60, case when count(*) = 2000
      then extract(epoch from statement_timestamp() - min(r.finished_at)) end)::float8 as span from r)
  select r.kind, count(r.took), sum(r.took),
    count(*) filter (where r.finished_at > statement_timestamp() - s.span * interval '1 s')
      / greatest(max(s.span), 0.001), sum(r.took * r.slots)
  from s cross join r
  where pgrab_internal.scale_counts(r.kind, case when p_labels is null then '{}' else coalesce(
      (select t.require from pgrab.task t where t.id = r.task_id), r.definition -> 'require', '{}') end,
    p_kinds, p_labels)
  group by r.kind;
end;
comment on function pgrab_internal.scale_runs is
  'How many runs have ended per second lately, and how long they took; and the same times their slots.';

create or replace function pgrab_internal.scale_crews(
  p_kinds text[] default null, p_labels jsonb default null)
returns table (crew text, slots bigint, of_node float8)
language sql stable
begin atomic
  select c.key, sum((c.value ->> 1)::bigint)::bigint, avg(nullif((c.value ->> 1)::bigint, 0))
  from pgrab.node n
    cross join jsonb_each(coalesce(n.crews, jsonb_build_object('', array[n.running, n.slots]))) c
  where n.state = 'up' and n.live and (p_kinds is null or n.kinds && p_kinds)
    and (p_labels is null or n.labels @> p_labels)
  group by c.key;
end;
comment on function pgrab_internal.scale_crews is
  'The workers (crew ""), http and the pools of handlers of the nodes that are up: how many slots they '
  'have, all together and on a node that has any.';

create or replace function pgrab_internal.crew_for(p_kind text) returns text
language sql stable
return coalesce((select min(p.name) from pgrab.pool p join pgrab.node n on n.id = p.node_id
    where n.live and p.kinds ? p_kind),
  (select max(pgrab_internal.crew_of(n, p_kind)) from pgrab.node n where n.live), '');
comment on function pgrab_internal.crew_for is
  'Who carries out a kind on the nodes that are up: the workers (""), http, or a pool of handlers.';

-- Of what is due soon the most slots that one takes count.  Looks at twenty tasks at most of each lane and
-- shard.
create or replace function pgrab_internal.scale_load(p_within interval, p_kinds text[], p_labels jsonb)
returns table (crew text, wants bigint, due bigint, running bigint, oldest float8, runs bigint, took float8,
  per_second float8)
language sql stable
begin atomic
  select l.*
  from (
    select pgrab_internal.crew_for(coalesce(d.kind, r.kind)) as crew,
      coalesce(sum(d.due), 0)::bigint as due, coalesce(sum(d.running), 0)::bigint as running,
      coalesce(max(d.soon), 0) as soon, max(d.oldest) as oldest, coalesce(sum(r.runs), 0)::bigint as runs,
      coalesce(sum(r.took), 0) as took, coalesce(sum(r.per_second), 0) as per_second,
      coalesce(sum(d.due_slots), 0)::bigint as due_slots,
      coalesce(sum(d.running_slots), 0)::bigint as running_slots,
      coalesce(sum(r.took_slots) / nullif(sum(r.took), 0), 1) as each
    from (
        select t.kind, count(*) filter (where t.due_at <= statement_timestamp() and t.status <> 'running')
            as due,
          count(*) filter (where t.status = 'running') as running, max(t.slots) as soon,
          extract(epoch from statement_timestamp() - min(t.due_at) filter (where t.status <> 'running'
            and t.due_at <= statement_timestamp())) as oldest,
          sum(t.slots) filter (where t.due_at <= statement_timestamp() and t.status <> 'running')
            as due_slots,
          sum(t.slots) filter (where t.status = 'running') as running_slots
        from pgrab_tool.due_until(statement_timestamp() + p_within, null, 20) t
        where pgrab_internal.scale_counts(t.kind, t.require, p_kinds, p_labels)
        group by t.kind) d
      full join pgrab_internal.scale_runs(p_kinds, p_labels) r on r.kind = d.kind
    group by 1) k
    cross join lateral (
      select k.crew, greatest(k.soon, pgrab_internal.scale_workers(k.due_slots, k.running_slots,
        k.per_second * k.each, coalesce(k.took / nullif(k.runs, 0), 1),
        greatest(extract(epoch from p_within), 1)::float8)),
        k.due, k.running, k.oldest, k.runs, k.took, k.per_second) l;
end;
comment on function pgrab_internal.scale_load is
  'What the workers (crew ""), http and each pool of handlers have to do, and how many slots that wants.';

-- A pool that has no slot on any node, because its processes do not come up, wants one node.
create or replace function pgrab.scale(p_within interval default '1 minute', p_kinds text[] default null,
  p_labels jsonb default null)
returns table (workers bigint, nodes bigint, due bigint, oldest_due_seconds float8, running bigint,
  slots bigint, runs_per_second float8, seconds_per_run float8)
language sql stable
begin atomic
  select coalesce(sum(l.wants) filter (where l.crew = ''), 0)::bigint,
    coalesce(max(case when l.wants = 0 then 0 when c.of_node is not null then ceil(l.wants / c.of_node)
      when l.crew = '' then ceil(l.wants / 8.0) else 1 end), 0)::bigint,
    coalesce(sum(l.due), 0)::bigint, coalesce(round(max(l.oldest)::numeric, 1), 0)::float8,
    coalesce(sum(l.running), 0)::bigint,
    coalesce((
      select w.slots from pgrab_internal.scale_crews(p_kinds, p_labels) w where w.crew = ''), 0),
    coalesce(round(sum(l.per_second)::numeric, 3), 0)::float8,
    coalesce(round((sum(l.took) / nullif(sum(l.runs), 0))::numeric, 4), 1)::float8
  from pgrab_internal.scale_load(p_within, p_kinds, p_labels) l
    left join pgrab_internal.scale_crews(p_kinds, p_labels) c on c.crew = l.crew;
end;
comment on function pgrab.scale(interval, text[], jsonb) is
  'How many workers, and how many nodes like the present ones, the load of the last minutes and the backlog '
  'need, so that all tasks that are due now start within the time given. http and the kinds of pools of '
  'handlers count for the nodes, not for the workers and slots. For one group of nodes: p_kinds, only '
  'tasks of these kinds; p_labels, the labels of its nodes: only tasks that require some of them, and no '
  'others; {}: only tasks that require none. The rule is in docs/http.md.';

create or replace function pgrab_tool.labels_of(p_text text) returns jsonb
language plpgsql immutable as $$
declare
  c_items constant text[] := string_to_array(nullif(p_text, 'none'), ',');
begin
  if exists (select from unnest(c_items) i where i !~ '^[^=]+=') then
    raise exception using errcode = '22023', message = format('labels cannot be %L', p_text),
      hint = 'Write labels as zone=eu,disk=ssd; none: those that require no labels.';
  end if;
  return case when p_text is not null then coalesce((
    select jsonb_object_agg(split_part(i, '=', 1), substr(i, strpos(i, '=') + 1))
    from unnest(c_items) i), '{}') end;
end $$;
comment on function pgrab_tool.labels_of is
  'Labels as in the settings of a node, zone=eu,disk=ssd, as JSON; none is {}.';

create or replace function pgrab.token_add(p_name text, p_role text default current_user,
  p_valid interval default '90 days')
returns text
language plpgsql as $$
declare
  c_token constant text := 'pgrab_' || translate(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
begin
  if not pg_has_role(p_role, case
    when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end) then
    raise exception using errcode = '42501', message = format('you may not act as role %s', p_role),
      hint = 'A token can only be made for yourself, or for a role that you may SET ROLE to.';
  end if;
  insert into pgrab.token (hash, role, name, expires_at)
  values (sha256(convert_to(c_token, 'UTF8')), p_role, p_name, now() + p_valid);
  return c_token;
end $$;
comment on function pgrab.token_add(text, text, interval) is
  'Makes a token for pgrab serve and returns it, this once: only its hash is stored. Its bearer may do what '
  'the role may.';
