-- Serves: pgrab apply.  What there is before; gone with the transaction.
create temporary table pgrab_before on commit drop as
select t.id, coalesce(t.key, t.name, '#' || t.id) as name, to_jsonb(t) as definition
from pgrab.task t
