-- JSON Schema, as far as args are checked against it: type, enum, const, properties, required,
-- additionalProperties, items, minimum, maximum, minLength, maxLength, minItems, maxItems, pattern.  Other
-- keywords are ignored, so that a row that the whole schema accepts is never refused here.  What a handler
-- says is not trusted: a keyword with a malformed value is ignored, too, and a check goes no further than 20
-- levels deep and the first 1000 elements of an array.

create or replace function pgrab_internal.schema_types(p_schema jsonb) returns text[]
language sql immutable parallel safe
return case jsonb_typeof(p_schema -> 'type')
  when 'string' then array[p_schema ->> 'type']
  when 'array' then array(select t from jsonb_array_elements_text(p_schema -> 'type') t) end;
comment on function pgrab_internal.schema_types is 'The types that a schema names. Null: none.';

create or replace function pgrab_internal.schema_bound(p_schema jsonb, p_name text) returns numeric
language sql immutable parallel safe
return case when jsonb_typeof(p_schema -> p_name) = 'number' then (p_schema ->> p_name)::numeric end;
comment on function pgrab_internal.schema_bound is 'A number in a schema, or null.';

create or replace function pgrab_internal.schema_matches(p_pattern text, p_text text) returns boolean
language plpgsql immutable parallel safe as $$
begin
  return p_text ~ p_pattern;
exception when invalid_regular_expression then
  return true;
end $$;
comment on function pgrab_internal.schema_matches is
  'Does the text match? True for a pattern that PostgreSQL cannot read.';

-- Bounds apply to a number, the length of a text, or the number of elements of an array.
create or replace function pgrab_internal.schema_size(p_schema jsonb, p_value jsonb)
returns table (size numeric, low numeric, high numeric, unit text)
language sql immutable parallel safe
begin atomic
  -- CASE, here and below, because with a constant the planner evaluates these whatever the WHERE says.
  select case jsonb_typeof(p_value) when 'number' then (p_value #>> '{}')::numeric end,
    pgrab_internal.schema_bound(p_schema, 'minimum'), pgrab_internal.schema_bound(p_schema, 'maximum'), ''
  where jsonb_typeof(p_value) = 'number'
  union all
  select length(p_value #>> '{}'), pgrab_internal.schema_bound(p_schema, 'minLength'),
    pgrab_internal.schema_bound(p_schema, 'maxLength'), ' characters'
  where jsonb_typeof(p_value) = 'string'
  union all
  select jsonb_array_length(case jsonb_typeof(p_value) when 'array' then p_value end),
    pgrab_internal.schema_bound(p_schema, 'minItems'), pgrab_internal.schema_bound(p_schema, 'maxItems'),
    ' elements'
  where jsonb_typeof(p_value) = 'array';
end;
comment on function pgrab_internal.schema_size is 'What the bounds of a schema apply to, and the bounds.';

create or replace function pgrab_internal.schema_own(p_schema jsonb, p_value jsonb) returns text
language sql immutable parallel safe
begin atomic
  select case
    when pgrab_internal.schema_types(p_schema) is not null and not exists (
        select from unnest(pgrab_internal.schema_types(p_schema)) t
        where case when t not in ('null', 'boolean', 'number', 'integer', 'string', 'array', 'object')
            then true
          when t = 'integer' and jsonb_typeof(p_value) = 'number' then (p_value #>> '{}')::numeric % 1 = 0
          else jsonb_typeof(p_value) = t end)
      then format('must be of type %s', array_to_string(pgrab_internal.schema_types(p_schema), ' or '))
    when jsonb_typeof(p_schema -> 'enum') = 'array' and not exists (
        select from jsonb_array_elements(p_schema -> 'enum') e where e = p_value)
      then format('must be one of %s', left(p_schema ->> 'enum', 200))
    when p_schema ? 'const' and p_schema -> 'const' <> p_value
      then format('must be %s', left((p_schema -> 'const')::text, 200))
    when s.size < s.low then format('must be at least %s%s', s.low, s.unit)
    when s.size > s.high then format('must be at most %s%s', s.high, s.unit)
    when jsonb_typeof(p_schema -> 'pattern') = 'string' and jsonb_typeof(p_value) = 'string'
        and not pgrab_internal.schema_matches(p_schema ->> 'pattern', p_value #>> '{}')
      then format('must match %s', left(p_schema ->> 'pattern', 200)) end
  from (select) one left join pgrab_internal.schema_size(p_schema, p_value) s on true;
end;
comment on function pgrab_internal.schema_own is
  'Why a value itself, leaving out its members, does not fit a schema. Null: it fits.';

-- Most schemas say only which type.  An expression that the planner puts in place, because a call of
-- schema_fault() for each member made an INSERT ten times as slow.
create or replace function pgrab_internal.schema_plain(p_schema jsonb, p_value jsonb) returns boolean
language sql immutable parallel safe
return coalesce(case
  when p_schema is null or p_schema = '{}' then p_value is not null
  when jsonb_typeof(p_schema) = 'object' and p_schema - '{type,title,description,default}'::text[] = '{}'
  then case p_schema ->> 'type'
    when jsonb_typeof(p_value) then true
    when 'integer' then
      case jsonb_typeof(p_value) when 'number' then (p_value #>> '{}')::numeric % 1 = 0 end end end, false);
comment on function pgrab_internal.schema_plain is
  'Does the value fit, as can be seen at once? False: see schema_fault().';

-- The members of an object and the elements of an array, each with the schema for it; with a null value those
-- that are missing, first.
create or replace function pgrab_internal.schema_parts(p_schema jsonb, p_value jsonb)
returns table (at text, schema jsonb, value jsonb)
language sql immutable parallel safe
begin atomic
  select '.' || r.name, null::jsonb, null::jsonb
  from jsonb_array_elements_text(case when jsonb_typeof(p_value) = 'object'
      and jsonb_typeof(p_schema -> 'required') = 'array' then p_schema -> 'required' end) r(name)
  where not p_value ? r.name
  union all
  select '.' || o.key, coalesce(p_schema -> 'properties' -> o.key, p_schema -> 'additionalProperties'),
    o.value
  from jsonb_each(case jsonb_typeof(p_value) when 'object' then p_value end) o
  union all
  select format('[%s]', a.n - 1), p_schema -> 'items', a.value
  from jsonb_array_elements(case when jsonb_typeof(p_value) = 'array'
      and jsonb_typeof(p_schema -> 'items') = 'object' then p_value end) with ordinality a(value, n)
  where a.n <= 1000;
end;
comment on function pgrab_internal.schema_parts is
  'The members or elements of a value, each with its schema.';

create or replace function pgrab_internal.schema_fault(p_schema jsonb, p_value jsonb, p_at text) returns text
language plpgsql immutable parallel safe as $$
declare
  v_fault text;
  v record;
begin
  if p_value is null then
    return p_at || ' is missing';
  elsif p_schema = 'false' then
    return p_at || ' is unknown';
  elsif jsonb_typeof(p_schema) is distinct from 'object' or length(p_at) > 2000 then
    return null;
  elsif not pgrab_internal.schema_plain(
      p_schema - '{properties,required,additionalProperties,items}'::text[], p_value) then
    v_fault := p_at || ' ' || pgrab_internal.schema_own(p_schema, p_value);
  end if;
  if v_fault is not null or p_at like repeat('%.', 20) || '%' then
    return v_fault;
  end if;
  -- The usual object, in which there is nothing to find, at a third of what the search below costs.
  if jsonb_typeof(p_value) = 'object' and jsonb_typeof(p_schema -> 'properties') = 'object'
    and p_value ?& array(select jsonb_array_elements_text(
      case jsonb_typeof(p_schema -> 'required') when 'array' then p_schema -> 'required' else '[]' end))
    and not exists (
      select from jsonb_each(case jsonb_typeof(p_value) when 'object' then p_value end) o
      where not pgrab_internal.schema_plain(
        coalesce(p_schema -> 'properties' -> o.key, p_schema -> 'additionalProperties'), o.value))
  then
    return null;
  end if;
  for v in
    select p.at, p.schema, p.value from pgrab_internal.schema_parts(p_schema, p_value) p
    where not pgrab_internal.schema_plain(p.schema, p.value)
  loop
    v_fault := pgrab_internal.schema_fault(v.schema, v.value, p_at || v.at);
    if v_fault is not null then
      return v_fault;
    end if;
  end loop;
  return null;
end $$;
comment on function pgrab_internal.schema_fault is
  'Where a value first fails to fit a schema, and why. Null: it fits.';

-- A node calls this whenever one of its processes comes or goes; only what is new is written.  A schema is
-- taken over only when it has changed in its pool, so that a node that restarts a process does not undo what
-- another node has declared since.
create or replace function pgrab_internal.pools_announce(p_node_id bigint, p_pools jsonb) returns void
language sql as $$
  with said as materialized (
    select * from jsonb_to_recordset(p_pools) s(name text, command text, kinds jsonb, processes integer,
      up integer, slots integer, lost bigint, library text, fault text)),
  declared as (
    update pgrab.kind k set schema = nullif(d.schema, 'null')
    from (
      select distinct on (m.key) m.key as kind, m.value as schema
      from said s cross join lateral jsonb_each(s.kinds) m
        left join pgrab.pool o on o.node_id = p_node_id and o.name = s.name
      where s.up > 0 and (o.kinds -> m.key) is distinct from m.value
      order by m.key, s.name) d
    where k.kind = d.kind and k.handled and k.schema is distinct from nullif(d.schema, 'null')),
  gone as (
    delete from pgrab.pool p where p.node_id = p_node_id and p.name not in (select s.name from said s))
  insert into pgrab.pool as p (node_id, name, command, kinds, processes, up, slots, lost, library, fault)
  select p_node_id, s.name, s.command, s.kinds, s.processes, s.up, s.slots, s.lost, s.library, s.fault
  from said s
  on conflict (node_id, name) do update
  set command = excluded.command, processes = excluded.processes, up = excluded.up, slots = excluded.slots,
    kinds = case when excluded.up > 0 then excluded.kinds else p.kinds end, lost = excluded.lost,
    library = coalesce(excluded.library, p.library), fault = excluded.fault, changed_at = clock_timestamp()
$$;
comment on function pgrab_internal.pools_announce is
  'For nodes: reports the state of their pools and the schemas that their processes have declared.';
