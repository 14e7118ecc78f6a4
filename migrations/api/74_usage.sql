-- What runs have taken: pgrab.usage().

create or replace function pgrab_internal.usage_refuse(p_by text) returns text
language plpgsql as $$
begin
  raise exception using errcode = '22023', message = format('usage cannot be summed by %L', p_by),
    hint = 'By owner, key, share_key, name, kind or node.';
end $$;
comment on function pgrab_internal.usage_refuse is 'Refuses what usage() cannot be summed by.';

-- The session of a sql task works for it from the start of its run to the end.
create or replace function pgrab.usage(
  p_by text default 'owner', p_bucket interval default '1 day', p_within interval default '7 days')
returns table (bucket timestamptz, who text, runs bigint, failures bigint, seconds float8,
  cpu_seconds float8, database_seconds float8, memory_bytes bigint, output_bytes bigint)
language sql stable
begin atomic
  select date_bin(p_bucket, r.finished_at, '2001-01-01Z'),
    case p_by when 'owner' then r.owner when 'key' then r.key when 'name' then r.name when 'kind' then r.kind
      when 'node' then r.node
      when 'share_key' then coalesce(r.definition ->> 'share_key',
        (select t.share_key from pgrab.task t where t.id = r.task_id)) -- of a schedule: as it is now
      else pgrab_internal.usage_refuse(p_by) end,
    count(*), count(*) filter (where r.outcome not in ('succeeded', 'waited', 'preempted')),
    coalesce(round(sum(t.took)::numeric, 3), 0)::float8,
    round(sum(r.cpu_seconds::float8)::numeric, 3)::float8,
    coalesce(round(sum(t.took) filter (where r.kind = 'sql')::numeric, 3), 0)::float8,
    max(r.memory_bytes), coalesce(sum(coalesce(r.output_bytes, octet_length(r.output))), 0)::bigint
  from pgrab.run r
    cross join lateral (
      select greatest(extract(epoch from r.finished_at - coalesce(r.started_at, r.claimed_at)), 0)::float8
        as took) t
  where r.finished_at > statement_timestamp() - p_within and r.outcome not in ('skipped', 'missed')
  group by 1, 2
  order by 1, 2;
end;
comment on function pgrab.usage(text, interval, interval) is
  'What the runs that have ended within p_within have taken, for each owner (p_by: owner, key, share_key, '
  'name, kind, node) and bucket of time: how many there were, how long they took, their processor time '
  '(null: nobody knows, as of handlers), the time of the database that sql tasks took, the most memory of '
  'one run, and how much they printed. Reads all of that history.';
