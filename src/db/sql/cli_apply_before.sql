-- Serves: pgrab apply.  The tasks as they are before; dropped at the end of the transaction.
create temporary table pgrab_before on commit drop as
select t.id, coalesce(t.key, t.name, '#' || t.id) as name, to_jsonb(t) as definition
from pgrab.task t
