-- A text that is another one when lanes.sql may have another answer: the lanes, what the nodes that are up
-- say of themselves, and who is a member of what.  (A lane is never changed.  That a role became a superuser,
-- it does not show.)
-- Serves: loader, now and then; only then does it ask for the lanes again.
-- $1 kinds text[], $2 labels jsonb, $3 owners text[], $4 bounds jsonb, $5 band, $6 room, $7 workers, $8
-- memory, as of lanes.sql: the node's own row may not say so yet.
select concat_ws(' ',
  hash_record_extended(row($1::text[], $2::jsonb, $3::text[], $4::jsonb, $5::int, $6::jsonb,
    $7::int, $8::bigint), 0),
  (select count(*) || ' ' || coalesce(bit_xor(hashint8extended(l.id, 0)), 0) from pgrab.lane l),
  (select count(*) || ' ' || coalesce(bit_xor(hash_record_extended(
      row(n.id, n.labels, n.kinds, n.owners, n.bounds, n.min_priority, n.room, n.memory), 0)), 0)
    from pgrab.node n where not n.down and n.state = 'up'),
  (select bit_xor(hash_record_extended(o, 0)) from pgrab.override o),
  case when (select c.roles from pgrab.cluster c) then (
    select count(*) || ' ' || coalesce(bit_xor(hash_record_extended(m, 0)), 0) from pg_auth_members m) end)
