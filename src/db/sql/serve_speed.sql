-- Serves: GET /api/v1/speed, the page Nodes.  How quick each node is: its last runs against the median of the
-- same tasks on the other nodes.  Plan: run_finished_idx backwards, at most 2000 rows of a day.
:speed
select s.node, s.runs, s.failed, s.seconds_p50, s.times_usual
from speed s order by s.times_usual desc nulls last, s.node
