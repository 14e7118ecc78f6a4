-- Who acts, and how it is recorded.
--
-- A function with the rights of pgrab's owner cannot ask who called it: there current_user is the owner, and
-- session_user is the role that logged in, even inside a function that another user has planted.  So the
-- caller is recorded on the way in, while current_user still tells: by the default of a column that no user
-- may write (pgrab.task.owner; call.caller), or by a trigger that runs with the caller's rights just before
-- ours (pgrab_tool.note_caller()).
--
-- The public functions (pgrab.pause(), ...) insert into a view, pgrab_internal.call.  Their bodies are parsed
-- when they are created, so they reach it without a right on its schema, and nothing else reaches it at all.
-- Its trigger does the work (52_call.sql).

insert into pgrab_internal.key (name, value)
values ('call', gen_random_uuid()::text || gen_random_uuid()) on conflict do nothing;

create view pgrab_internal.call as
select null::text as verb, null::bigint[] as ids, null::text as word, null::jsonb as file,
  null::text as caller, null::pgrab_internal.task[] as tasks, null::pgrab.node as node, null::boolean as done,
  null::bigint as n
where false;
comment on view pgrab_internal.call is
  'Internal: an insert carries out a public function. Its trigger answers in tasks, node, done and n.';
comment on column pgrab_internal.call.verb is 'What is to be done.';
comment on column pgrab_internal.call.ids is 'To which tasks.';
comment on column pgrab_internal.call.word is
  'To which node, for which source, which signal, or with which token; the answer of resolve().';
comment on column pgrab_internal.call.file is
  'The argument of pgrab.apply(), backfill() or resolve(), or what comes with a signal; the answer of '
  'backfill().';
comment on column pgrab_internal.call.caller is 'By whom: current_user of the insert.';
comment on column pgrab_internal.call.tasks is 'Answer: the tasks it changed.';
comment on column pgrab_internal.call.node is 'Answer: the node.';
comment on column pgrab_internal.call.done is
  'Answer: was there anything to do? For pgrab.apply(), on the way in: may it prune?';
comment on column pgrab_internal.call.n is 'Answer: how many.';
alter view pgrab_internal.call alter column caller set default current_user;

-- Only the owner of pgrab can make this setting, because no other role can read the key.
create or replace function pgrab_internal.call_begin(p_verb text, p_caller text) returns text[]
language plpgsql as $$
declare
  c_before constant text[] := array[
    coalesce(current_setting('pgrab.call', true), ''), coalesce(current_setting('pgrab.caller', true), '')];
begin
  perform set_config('pgrab.call', k.value || p_verb, true), set_config('pgrab.caller', p_caller, true)
  from pgrab_internal.key k where k.name = 'call';
  return c_before;
end $$;
comment on function pgrab_internal.call_begin is
  'From here on the caller acts through one of our functions. Returns the argument for call_end().';

-- By assignments, and so for its callers, too: in a query the key would be a constant of its plan, which any
-- user may have printed (debug_print_plan).
create or replace function pgrab_internal.call_end(p_before text[]) returns text[]
language plpgsql as $$
begin
  p_before[1] := set_config('pgrab.call', p_before[1], true);
  p_before[2] := set_config('pgrab.caller', p_before[2], true);
  return null;
end $$;
comment on function pgrab_internal.call_end is 'Ends what call_begin() began; returns nothing.';

create or replace function pgrab_internal.call_verb() returns text
language plpgsql stable as $$
begin
  return case when current_setting('pgrab.call', true) <> '' then (
    select substr(current_setting('pgrab.call', true), length(k.value) + 1) from pgrab_internal.key k
    where k.name = 'call' and starts_with(current_setting('pgrab.call', true), k.value)) end;
end $$;
comment on function pgrab_internal.call_verb is
  'Which public function is at work. Null: none, a user writes to the tables directly.';

create or replace function pgrab_internal.in_call() returns boolean
language sql stable
return pgrab_internal.call_verb() is not null;
comment on function pgrab_internal.in_call is 'Is a public function at work?';

create or replace function pgrab_internal.caller() returns text
language sql stable
return coalesce(nullif(current_setting('pgrab.caller', true), ''), session_user);
comment on function pgrab_internal.caller is
  'Who acts, for functions that run after call_begin() or pgrab_tool.note_caller().';

-- --------------------------------------------------------------------------------------------------- events

-- The session that makes the partition of today has the default one locked.  An insert that waits for it has
-- been routed there, and would be refused once the partition is there.
create or replace function pgrab_internal.event(
  p_what text, p_role text, t pgrab_internal.task, p_detail jsonb default null)
returns void
language plpgsql as $$
begin
  if to_regclass('pgrab.event_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD')) is null then
    lock table pgrab.event_rest in row exclusive mode;
  end if;
  insert into pgrab.event (what, role, task_id, task, owner, detail)
  values (p_what, p_role, t.id, coalesce(t.name, t.key), t.owner, p_detail);
end $$;
comment on function pgrab_internal.event is 'Records what a user did to a task.';

create or replace function pgrab_internal.edits(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable
begin atomic
  select jsonb_object_agg(n.key, jsonb_build_array(left(p_old ->> n.key, 200), left(n.value #>> '{}', 200)))
  from jsonb_each(p_new) n
  where n.value is distinct from p_old -> n.key and n.key not in ('version', 'updated_at', 'incarnation',
    'node_id', 'due_at', 'fire_at', 'claimed_at', 'attempt', 'settled', 'status', 'needs', 'met', 'chain',
    'line');
end;
comment on function pgrab_internal.edits is
  'Which of the columns that users write have changed: {column: [old, new]}, 200 characters of each value.';

-- Is nothing else edited?  Then nothing that was checked before can be wrong now: half the price when
-- many are edited.
create or replace function pgrab_internal.edit_simple(o pgrab_internal.task, t pgrab_internal.task)
returns boolean
language plpgsql immutable as $$
begin
  o.paused := t.paused;
  o.priority := t.priority;
  return o is not distinct from t;
end $$;
comment on function pgrab_internal.edit_simple is
  'Does an edit change no other columns than `paused` and `priority`?';

-- Public functions record their own event; only what pgrab.apply() edits counts as an edit.
create or replace function pgrab_internal.event_edit(o pgrab_internal.task, n pgrab_internal.task)
returns void
language plpgsql as $$
begin
  if coalesce(pgrab_internal.call_verb(), 'apply') = 'apply' then
    perform pgrab_internal.event('edit', pgrab_internal.caller(), n,
      case when pgrab_internal.edit_simple(o, n) then jsonb_strip_nulls(jsonb_build_object(
          'paused', case when o.paused <> n.paused then array[o.paused::text, n.paused::text] end,
          'priority', case when o.priority <> n.priority then array[o.priority::text, n.priority::text] end))
        else pgrab_internal.edits(to_jsonb(o), to_jsonb(n)) end);
  end if;
end $$;
comment on function pgrab_internal.event_edit is 'Records the edit of a task, with the columns that changed.';
