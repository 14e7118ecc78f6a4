-- Alerts by the clock: `alive`, while all is well with the nodes, for something outside that acts when it
-- hears nothing; and `digest`, what went wrong since the last one.  Each is told to its own alert only.

create or replace function pgrab_internal.alert_planned() returns trigger
language plpgsql as $$
begin
  if tg_op = 'INSERT' or not old.enabled and new.enabled then
    new.told_at := clock_timestamp();
  end if;
  new.next_at := case when new.enabled and new.schedule is not null
    then pgrab.next_fire(new.schedule, new.timezone, clock_timestamp()) end;
  perform pgrab_internal.waits_ring(new.next_at);
  return new;
exception when invalid_parameter_value then
  raise exception using errcode = '22023',
    message = format('alert %s cannot be set: %s', quote_literal(new.name), sqlerrm),
    hint = 'schedule says when alive or digest is told: as for a task, ''0 8 * * *'' or @every 1m.';
end $$;
comment on function pgrab_internal.alert_planned is 'Plans when an alert by the clock is told next.';
create or replace trigger alert_20_planned
  before insert or update of schedule, timezone, enabled on pgrab.alert
  for each row execute function pgrab_internal.alert_planned();

-- By the names of tasks, what went wrong most often first.  What a role may is asked once, not for each row.
-- Bounded, whatever has happened: the latest ten thousand of each.
create or replace function pgrab_internal.digest_facts(p_alert text, p_since timestamptz) returns jsonb
language sql stable
begin atomic
  with line as materialized (
    select row_number() over (order by l.times desc, l.what, l.task) as no, l.*
    from (
      select r.what, c.name as task, count(*) as times, (array_agg(r.why order by r.at desc))[1] as why
      from (
        select x.*, pgrab_internal.may_operate(x.set_by) as operates
        from pgrab.alert x where x.name = p_alert offset 0) a
        cross join lateral (
          select case z.outcome when 'missed' then 'missed' else 'failed' end as what, z.task_id, z.name,
            z.key, z.owner, z.definition ->> 'source' as source, z.finished_at as at,
            coalesce(z.error, z.outcome) as why
          from (
            select * from pgrab.run x where x.outcome <> 'succeeded' and x.finished_at > a.told_at
            order by x.finished_at desc limit 10000) z
          where pgrab_tool.run_is_failure(z.outcome) or z.outcome = 'missed'
          union all
          select e.what, e.task_id, e.task, null, e.owner, null, e.at, e.detail ->> 'why'
          from (select * from pgrab.event x where x.at > a.told_at order by x.at desc limit 10000) e
          where e.what in ('slow', 'late')) r
        cross join lateral (
          select pgrab_internal.called(r.task_id, r.name, r.key) as name,
            case when a.source is null then null else coalesce(r.source,
              (select t.source from pgrab.task t where t.id = r.task_id), '') end as source) c
      where (a.operates or a.set_by = r.owner) and pgrab_internal.alert_covers(a.owner, a.source, a.task_like,
        jsonb_build_object('owner', r.owner, 'source', c.source, 'name', r.name, 'key', r.key))
      group by 1, 2) l),
  word as (
    select l.what, format('%s %s', sum(l.times), l.what) as said from line l group by l.what)
  select pgrab_internal.facts('digest', 'digest ' || p_alert, 'digest-' || p_alert, jsonb_build_object(
    'name', p_alert, 'since', to_json(p_since) #>> '{}',
    'failures', coalesce((select sum(l.times) from line l where l.what = 'failed'), 0),
    'text', format('since %s: %s', pgrab_internal.cut(p_since), coalesce(
      (select string_agg(w.said, ', ' order by w.what) from word w), 'nothing failed, was late or slow')),
    'error', (select string_agg(case when l.no > 50 then '...' else format('%s %s %s: %s',
        pgrab_internal.brief(l.task, 200), l.what,
        case l.times when 1 then 'once' else l.times || ' times' end, pgrab_internal.brief(l.why, 200)) end,
      E'\n' order by l.no) from line l where l.no <= 51)));
end;
comment on function pgrab_internal.digest_facts is
  'What a digest says: `text` how much, `error` a line for each task, 50 at most.';

-- Serves: waits.sql.  One that no node could tell in time is told once.
create or replace function pgrab_internal.clock_tick(out told bigint, out next_us bigint)
language plpgsql set enable_seqscan = off set jit = off as $$
declare
  c_most constant integer := 10;
  c_until constant timestamptz := clock_timestamp() + interval '200 ms';
  a record;
begin
  told := 0;
  for a in
    select * from pgrab.alert x where x.next_at <= statement_timestamp()
    order by x.next_at limit c_most for update skip locked
  loop
    insert into pgrab_internal.notice (event, facts, template)
    select f.facts ->> 'event', f.facts || jsonb_build_object('owner', a.set_by), a.template
    from (
      select pgrab_internal.facts('alive', 'cluster', 'cluster', jsonb_build_object('text',
        format('all is well: %s %s up', x.up, case x.up when 1 then 'node is' else 'nodes are' end))) as facts
      from (
        select count(*) filter (where n.live) as up, bool_or(not n.live or n.ill) as ill
        from pgrab.node n where n.state <> 'down') x
      where 'alive' = any (a.events) and x.up > 0 and not x.ill
      union all
      select pgrab_internal.digest_facts(a.name, a.told_at) where 'digest' = any (a.events)) f;
    update pgrab.alert x
    set told_at = clock_timestamp(),
      next_at = pgrab.next_fire(a.schedule, a.timezone, clock_timestamp())
    where x.name = a.name;
    told := told + 1;
    exit when clock_timestamp() > c_until;
  end loop;
  if told > 0 then
    perform pg_notify('pgrab', 'alerts');
  end if;
  next_us := (select extract(epoch from min(x.next_at) - clock_timestamp()) * 1e6 from pgrab.alert x);
end $$;
comment on function pgrab_internal.clock_tick is
  'Writes down what alerts by the clock say whose time has come. next_us: when the next one''s comes.';
