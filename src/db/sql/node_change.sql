-- What a node's settings say since it has read them again.  Serves: heartbeat.  0 rows: somebody has the row
-- locked.  $1 node, $2 weight, $3 labels, $4 slots.
update pgrab.registration r set weight = $2::double precision, labels = $3::jsonb, slots = $4::int
where r.id in (select x.id from pgrab.registration x where x.id = $1::bigint for update skip locked)
returning r.id
