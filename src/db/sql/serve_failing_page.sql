-- Serves: the overview, the page Failing.  As serve_failing, with as much of the errors as the tasks have.
-- $1 limit.
select f.id, f.name, f.kind, f.status, f.since, f.failures, f.outcome,
  (select t.last_error from pgrab.task t where t.id = f.id) as error
from (select x.* from pgrab.failing x order by x.since desc limit $1::bigint) f
order by f.since desc
