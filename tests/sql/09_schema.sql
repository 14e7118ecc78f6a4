-- JSON Schema as far as args are checked, and what becomes of schemas that nodes declare.
begin;
select plan(46);

-- what does not fit, and where
create function pg_temp.fault(p_schema jsonb, p_value jsonb) returns text
language sql return pgrab_internal.schema_fault(p_schema, p_value, 'args');

select is(pg_temp.fault(s, v), want, coalesce(want, 'fits: ') || s || ' ' || v)
from (values
  ('{}'::jsonb, '{"a": 1}'::jsonb, null),
  ('null', '1', null), ('true', '1', null), ('7', '1', null), ('false', '1', 'args is unknown'),
  ('{"type": "object"}', '{}', null),
  ('{"type": "object"}', '[]', 'args must be of type object'),
  ('{"type": ["string", "null"]}', 'null', null),
  ('{"type": ["string", "null"]}', '1', 'args must be of type string or null'),
  ('{"type": "integer"}', '7', null), ('{"type": "integer"}', '7.0', null),
  ('{"type": "integer"}', '7.5', 'args must be of type integer'),
  ('{"type": "number"}', '7.5', null), ('{"type": "number"}', '"7"', 'args must be of type number'),
  ('{"type": "of the future"}', '7', null), ('{"type": 7}', '7', null),
  ('{"enum": ["a", 1, null]}', '1', null), ('{"enum": ["a", 1]}', '"b"', 'args must be one of ["a", 1]'),
  ('{"enum": "a"}', '1', null),
  ('{"const": {"a": 1}}', '{"a": 1}', null), ('{"const": 1}', '2', 'args must be 1'),
  ('{"minimum": 1, "maximum": 5}', '5', null), ('{"minimum": 1}', '0', 'args must be at least 1'),
  ('{"maximum": 5}', '5.5', 'args must be at most 5'), ('{"minimum": "x"}', '0', null),
  ('{"maximum": 5}', '"a text"', null),
  ('{"minLength": 2, "maxLength": 3}', '"äöü"', null),
  ('{"minLength": 2}', '"a"', 'args must be at least 2 characters'),
  ('{"maxItems": 1}', '[1, 2]', 'args must be at most 1 elements'),
  ('{"pattern": "^a+$"}', '"aa"', null), ('{"pattern": "^a+$"}', '"ab"', 'args must match ^a+$'),
  ('{"pattern": "(("}', '"ab"', null),
  ('{"required": ["a", "b"]}', '{"a": null}', 'args.b is missing'), ('{"required": 7}', '{}', null),
  ('{"properties": {"a": {"type": "string"}}}', '{"a": 1, "b": 2}', 'args.a must be of type string'),
  ('{"properties": {"a": {}}, "additionalProperties": false}', '{"a": 1, "b": 2}', 'args.b is unknown'),
  ('{"additionalProperties": {"type": "string"}}', '{"b": 2}', 'args.b must be of type string'),
  ('{"items": {"properties": {"n": {"type": "null"}}}}', '[{}, {"n": 1}]', 'args[1].n must be of type null'),
  ('{"anyOf": [{"type": "string"}], "$ref": "#/x"}', '1', null)) t(s, v, want);

select is(pgrab_internal.schema_fault(
    (repeat('{"properties": {"a": ', 500) || '{"type": "null"}' || repeat('}}', 500))::jsonb,
    (repeat('{"a": ', 500) || '1' || repeat('}', 500))::jsonb, 'args'),
  null, 'a check ends after some levels');

select results_eq($$select s, v, pgrab_internal.schema_plain(s, v) from (values
    ('{"type": "integer", "title": "t"}'::jsonb, '7'::jsonb), ('{"type": "number"}', '7.5'),
    ('{"type": "string"}', '"a"'), ('{}', '[1]'), (null, '{}'), ('{"type": "array"}', '[1]'),
    ('{"type": "integer"}', '7.5'), ('{"type": "string"}', '7'), ('{"type": ["string"]}', '"a"'),
    ('{"type": "string", "enum": ["a"]}', '"a"'), ('{"properties": {}}', '{}'), ('false', '1'),
    ('true', '1'), ('{}', null)) t(s, v)$$,
  $$select t.* from (values ('{"type": "integer", "title": "t"}'::jsonb, '7'::jsonb, true),
    ('{"type": "number"}', '7.5', true), ('{"type": "string"}', '"a"', true), ('{}', '[1]', true),
    (null, '{}', true), ('{"type": "array"}', '[1]', true), ('{"type": "integer"}', '7.5', false),
    ('{"type": "string"}', '7', false), ('{"type": ["string"]}', '"a"', false),
    ('{"type": "string", "enum": ["a"]}', '"a"', false), ('{"properties": {}}', '{}', false),
    ('false', '1', false), ('true', '1', false), ('{}', null, false)) t(s, v, plain)$$,
  'what usual schemas say is seen at once');

-- a kind's schema is asked at INSERT and UPDATE
insert into pgrab.kind (kind, summary, handled, schema)
  values ('send_email', 'a handler', true, '{"required": ["user_id"]}');
select throws_ok($$insert into pgrab.task (kind) values ('send_email')$$, '22023',
  $$task args cannot be '{}'$$, 'an empty row is checked, too');
select lives_ok($$insert into pgrab.task (kind, args, run_at)
  values ('send_email', '{"user_id": 7, "env": {"not a name": 1}}', 'tomorrow')$$, 'one that fits is taken');

-- what nodes announce
select pgrab_internal.pools_announce(1, '[{"name": "w", "command": "x", "processes": 2, "up": 0, "slots": 0,
  "lost": 0, "kinds": {"send_email": null}}]');
select is((select schema from pgrab.kind where kind = 'send_email'), '{"required": ["user_id"]}',
  'a pool without processes declares nothing');
select pgrab_internal.pools_announce(n, format('[{"name": "w", "processes": 2, "up": 1, "slots": 1, "lost": 0,
  "kinds": {"send_email": {"required": ["%s"]}}}]', r)::jsonb)
from (values (1, 'a'), (2, 'b'), (1, 'a')) s(n, r);
select is((select schema from pgrab.kind where kind = 'send_email'), '{"required": ["b"]}',
  'the last that says something new counts');
select pgrab_internal.pools_announce(1, '[]');
select results_eq('select node_id from pgrab.pool', array[2::bigint], 'a section that is gone leaves no row');

select * from finish();
rollback;
