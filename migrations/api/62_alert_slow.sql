-- Runs that take longer than usual, and fires that begin late.  One node looks at them while some alert wants
-- to hear of it, and writes each down once, as an event: so a digest can tell of it, too.

create or replace function pgrab_internal.slow_notice(t pgrab_internal.task, p_node text) returns void
language plpgsql as $$
begin
  t.last_error := case when t.slow_after is not null then format('longer than slow_after (%s)', t.slow_after)
    else format('95 %% of its last runs took no longer than %s', pgrab_tool.usual(t.durations, 0.95)) end;
  perform pgrab_internal.event('slow', session_user, t,
    jsonb_build_object('since', t.started_at, 'why', t.last_error));
  perform pgrab_internal.notice_add('slow', t,
    (t.id, 'slow', t.started_at, 0, null)::pgrab_internal.incident, p_node);
end $$;
comment on function pgrab_internal.slow_notice is 'Writes down that a run takes longer than usual.';

-- Serves: tell.sql.
create or replace function pgrab_internal.slow_tick() returns bigint
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  c_most constant integer := 1000; -- of a backlog the first are looked at
  c_events constant text[] := array(
    select distinct e from pgrab.alert a cross join unnest(a.events) e
    where a.enabled and a.events && '{slow,digest}');
begin
  if c_events = '{}' or not pgrab_internal.duty_take('slow', '5 s') then
    return 0;
  end if;
  if 'digest' = any (c_events) then
    -- what has been late for more than a minute, ten tasks at most; the others at the next looks
    perform pgrab_internal.event('late', session_user, t, jsonb_build_object('fire_at', t.fire_at, 'why',
      pgrab_internal.why(t)))
    from pgrab_tool.due_first(
      statement_timestamp() - interval '1 minute', '{scheduled,claimed}', c_most) t
    where not exists (
      select from pgrab.event e
      where e.task_id = any (array[t.id]) and e.what = 'late'
        and e.at > statement_timestamp() - interval '1 hour')
    limit 10;
  end if;
  return (
    with slow as materialized (
      select row(t.*)::pgrab_internal.task as t
      from pgrab_tool.in_hand() t
      where t.status = 'running'
        and t.started_at < statement_timestamp() - pgrab_internal.slow_after(row(t.*)::pgrab_internal.task)
        and not exists (
          select from pgrab.event e
          where e.task_id = any (array[t.id]) and e.what = 'slow' and e.at >= t.started_at)
      limit c_most)
    select count(pgrab_internal.slow_notice(s.t, pgrab_internal.node_of((s.t).node_id))) from slow s);
end $$;
comment on function pgrab_internal.slow_tick is
  'Every few seconds, on one node: writes down what has become slow, each once, or is late, no task twice '
  'in an hour. Returns how many have become slow.';
