-- Writes a node's settings after it has read them again.  Serves: heartbeat.  0 rows: another session has the
-- row locked, or the node has a new incarnation.
-- $1 node, $2 weight, $3 labels, $4 slots, $5 incarnation, $6 workers.
update pgrab.registration r set weight = $2::double precision, labels = $3::jsonb, slots = $4::int,
  room = r.room || jsonb_build_object('', $6::int)
where r.id in (select x.id from pgrab.registration x where x.id = $1::bigint for update skip locked)
  and $5::bigint =
    (select b.incarnation from pgrab.beat b where b.node_id = r.id order by b.beat desc limit 1)
returning r.id
