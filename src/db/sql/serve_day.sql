-- Serves: the overview: the next day by the hour, of the crew that it is most for.  As serve_month: a task
-- that fires every minute costs as much as one that fires every hour.
select date_trunc('second', m.at) as at, m.fires, m.work_seconds, m.crew, m.at_once, m.slots,
  round(100.0 * m.at_once / greatest(m.slots, 1)) as percent, m.names as tasks,
  null as cursor, m.complete
from pgrab.month(current_setting('timezone'), 2, 4000, 5) m
where m.at > statement_timestamp() - interval '1 hour'
order by m.at limit 24
