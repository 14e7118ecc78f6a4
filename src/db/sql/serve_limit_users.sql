-- Serves: the page Limits.  Who has the places of limits, and who is first in line: three of each.
-- Plan: the places that are taken; task_line_idx, three rows of each band.
select u.key as "limit", u.place, u.task_id, u.name, u.node, u.since, u.ends_by
from pgrab_tool.limit_users(3) u
order by u.key, array_position('{runs,about to start,in line}', u.place), u.since nulls last
limit 200
