-- Finding the task that a user means, by its number, its key or its name.

create or replace function pgrab_internal.called(p_id bigint, p_name text, p_key text) returns text
language sql immutable parallel safe
return coalesce(p_name, p_key, '#' || p_id);
comment on function pgrab_internal.called(bigint, text, text) is 'What to call a task in messages.';

-- No index has the words of the history.  The newest day is read first, then as many days again as have been
-- read, for as long as there is time.
create or replace function pgrab_tool.ended_called(p_word text, p_within interval default '300 ms',
  out id bigint, out since timestamptz)
language plpgsql stable set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  c_until constant timestamptz := clock_timestamp() + p_within;
  v_to timestamptz := 'infinity';
begin
  for n in 0 .. 13 loop
    since := case when n < 13 then clock_timestamp() - interval '1 day' * 2 ^ n else '-infinity' end;
    select r.task_id into id from pgrab.run r
    where (r.key = p_word or r.name = p_word) and r.ended is not null and r.finished_at >= since
      and r.finished_at < v_to
    order by r.finished_at desc limit 1;
    exit when found or clock_timestamp() > c_until;
    v_to := since;
  end loop;
end $$;
comment on function pgrab_tool.ended_called is
  'The latest ended task with a key or name, and since when ended tasks were looked at: as far back as the '
  'time allows.';

create or replace function pgrab_tool.id_refuse(
  p_word text, p_ids bigint[], p_keys text[], p_since timestamptz) returns void
language plpgsql stable as $$
begin
  if p_word is null then
    raise exception using errcode = '22004', message = 'a task is null',
      hint = 'Give the id, the key or the name of a task.';
  elsif cardinality(p_ids) > 1 then
    raise exception using errcode = '21000',
      message = format('%s tasks have the name %L', cardinality(p_ids), p_word),
      hint = format('Give the id or the key of one of them: %s.', (
        select string_agg(u.id || coalesce(' (key ' || u.key || ')', ''), ', ' order by u.id)
          filter (where u.n <= 20) || case when count(*) > 20 then ', ...' else '' end
        from unnest(p_ids, p_keys) with ordinality u(id, key, n)));
  end if;
  raise exception using errcode = 'P0002', message = format('no task has the key or name %L', p_word)
      || case when p_since > '-infinity' then format(', of those that have not ended or did since %s',
        date_trunc('second', p_since)) else '' end,
    hint = coalesce((
      select format('It was deleted; select pgrab.undelete(%L) brings it back.', p_word)
      from pgrab.definition d
      where p_word in (d.definition ->> 'key', d.definition ->> 'name')
        and not exists (select from pgrab.task t where t.id = any (array[d.task_id]))
      limit 1), 'Did you mean ' || (
      select string_agg(quote_literal(n.name), ', ') from (
        select coalesce(t.key, t.name) as name
        from (select x.key, x.name from pgrab.task x limit 100000) t
        where t.key ilike '%' || p_word || '%' or t.name ilike '%' || p_word || '%'
        order by 1 limit 3) n) || '?', 'select * from pgrab.tasks shows what there is.');
end $$;
comment on function pgrab_tool.id_refuse is
  'Refuses a name that several tasks have, or none (of those that have ended, since then); looks only at '
  'tasks that the caller may see.';

create or replace function pgrab_tool.no_task(p_id bigint) returns bigint
language plpgsql stable as $$
begin
  raise exception using errcode = 'P0002',
    message = format('task %s does not exist', coalesce(p_id::text, 'null')),
    hint = 'select * from pgrab.tasks shows what there is. Nodes drop old history (the setting `retention`); '
      'pgrab.undelete() may know a task that was deleted.';
end $$;
comment on function pgrab_tool.no_task is 'Refuses the id of a task that is neither live nor in the history.';

-- Live tasks first; then, as long as the history has it, the latest ended task with that key or name.
create or replace function pgrab_tool.id_of(p_task text) returns bigint
language plpgsql stable as $$
declare
  v_id bigint;
  v_ids bigint[];
  v_keys text[];
  v_since timestamptz;
begin
  if p_task ~ '^-?[0-9]{1,18}$' then
    return p_task::bigint;
  end if;
  select t.id into v_id from pgrab.task t where t.key = p_task;
  if not found then
    select array_agg(t.id order by t.id), array_agg(t.key order by t.id) into v_ids, v_keys
    from pgrab.task t where t.name = p_task;
    v_id := v_ids[1];
  end if;
  if v_id is null then
    select e.id, e.since into v_id, v_since from pgrab_tool.ended_called(p_task) e;
  end if;
  if v_id is null or cardinality(v_ids) > 1 then
    perform pgrab_tool.id_refuse(p_task, v_ids, v_keys, v_since);
  end if;
  return v_id;
end $$;
comment on function pgrab_tool.id_of is
  'The id of the task with this id, key or name, tried in this order. Refuses a name that several tasks '
  'have, listing them, and one that none has.';

create or replace function pgrab_internal.last_weekday(p_text text) returns timestamptz
language sql stable
begin atomic
  select case when d.at > statement_timestamp() then d.at - interval '7 days' else d.at end
  from (
    select (w.today - (extract(dow from w.today)::integer
        - (strpos('sunmontuewedthufrisat', lower(left(ltrim(p_text), 3))) - 1) / 3 + 7) % 7
      + coalesce(substring(p_text from '\d.*'), '00:00')::time)::timestamptz as at
    from (select statement_timestamp()::date as today) w) d;
end;
comment on function pgrab_internal.last_weekday is
  'The last such time of such a weekday, as in Mon 03:00, in the zone of the session.';

create or replace function pgrab_internal.moment_refuse(p_text text) returns timestamptz
language plpgsql stable as $$
begin
  raise exception using errcode = '22008', message = format('%L is no point in time', p_text);
end $$;
comment on function pgrab_internal.moment_refuse is 'Refuses a time that is infinite.';

-- Without a subquery, so that it is inlined where it is asked for each row.  What counts from infinity comes
-- to no end.
create or replace function pgrab_tool.moment(p_text text) returns timestamptz
language sql stable
return case when p_text like '% us' then statement_timestamp() - p_text::interval
  when p_text ~* '^\s*(sun|mon|tue|wed|thu|fri|sat)[a-z]*(\s+\d\d?:\d\d(:\d\d)?)?\s*$'
    then pgrab_internal.last_weekday(p_text)
  when p_text ~ '^\s*\d\d?:\d\d' and p_text::timestamptz > statement_timestamp()
    then p_text::timestamptz - interval '1 day'
  when not isfinite(p_text::timestamptz) then pgrab_internal.moment_refuse(p_text)
  else p_text::timestamptz end;
comment on function pgrab_tool.moment is
  'A point in time as a user gives it: a number of microseconds ago (ending in us), or a time; of a time '
  'without a day, or with only a weekday, the last one. Refuses what is infinite.';

-- A node writes them in UTC.  What only looks like a time stays.
create or replace function pgrab_tool.times_here(p_text text) returns text
language plpgsql stable as $$
declare
  v_text text := p_text;
  v_time text;
begin
  for v_time in
    select distinct m[1]
    from regexp_matches(p_text,
      E'\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d(?:[.]\\d+)?[+-]\\d\\d(?::\\d\\d)?', 'g') m
  loop
    v_text := replace(v_text, v_time, v_time::timestamptz::text);
  end loop;
  return v_text;
exception when data_exception then
  return p_text;
end $$;
comment on function pgrab_tool.times_here is
  'A text of the history with its times in the zone of the session.';
