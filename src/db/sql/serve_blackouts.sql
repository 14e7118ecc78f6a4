-- Serves: the first page.  Blackouts that are on, or come next.
select b.name, b.state, b.action, b.begins_at, b.ends_at, b.held, b.tasks, b.note
from pgrab.blackouts b where b.state <> 'over' order by b.state desc, b.begins_at, b.name limit 20
