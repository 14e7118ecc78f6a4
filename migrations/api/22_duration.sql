-- How long a task usually takes, known without its history: pgrab.task.durations has how long each of its
-- last runs that succeeded took, up to 32 of them, the latest last.  One byte each, n for 1 ms * 1.1^n: to
-- within 5 %, up to a year.  The move that ends a run writes it, so only tasks that stay have it: schedules,
-- and the links of their chains.

create or replace function pgrab_internal.durations_add(p_known bytea, p_took interval) returns bytea
language sql immutable parallel safe
return case when p_took is null then p_known else
  substring(coalesce(p_known, '') from greatest(coalesce(length(p_known), 0) - 30, 1)) || set_byte('\x00', 0,
    least(round(ln(greatest(extract(epoch from p_took)::float8 * 1000, 1)) / ln(1.1::float8)), 255)::int) end;
comment on function pgrab_internal.durations_add is
  'The durations of a task with that of one more run; the oldest of 32 is left out. Null: it is not known.';

create or replace function pgrab_tool.usual(p_known bytea, p_part float8 default 0.5) returns interval
language sql immutable parallel safe
begin atomic
  select round(x.seconds::numeric, case when x.seconds < 1 then 3 when x.seconds < 10 then 1 else 0 end)
    * interval '1 s'
  from (
    select percentile_disc(p_part) within group (order by 0.001 * power(1.1, get_byte(p_known, i))) as seconds
    from generate_series(0, length(p_known) - 1) i) x;
end;
comment on function pgrab_tool.usual is
  'How long at most that part of the last runs of a task took: its median, or 0.95. Null: none is known.';

-- What seems slow after three runs may be normal; and what is told within ten seconds cannot be told sooner.
create or replace function pgrab_internal.slow_after(t pgrab_internal.task) returns interval
language sql immutable parallel safe
return coalesce(t.slow_after, case when length(t.durations) >= 5
  then greatest(3 * pgrab_tool.usual(t.durations, 0.95), '10 s') end);
comment on function pgrab_internal.slow_after is
  'A run of the task that takes longer is slow. Null: nobody knows yet.';
