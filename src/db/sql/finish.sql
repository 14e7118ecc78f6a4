-- Records runs that have ended, with any outcome, and tries the task again, re-arms, parks or removes it.
-- Fenced; the rules are in pgrab_internal.finish_many().
-- Serves: finisher, recover (leaks).
-- $1 ids, $2 versions, $3 incarnations, $4 us since the start, $5 us since the end, $6 exit codes, $7
-- outputs, $8 output cut?, $9 node, $10 node's name, $11 outcomes, $12 errors,
-- $13 us until the next attempt (null: as the task says; -1: none; -1 - n: as the task says, but not before n
-- us), $14 what they took (pgrab_internal.cost, as text: a type of ours is another one after a migrate, which
-- a statement that is prepared would not learn of its parameter).  An array of nulls may come as null.
select f.task_id, f.version
from pgrab_internal.finish(
  ($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $11::text[], $6::int[], $7::text[],
    $8::boolean[], $12::text[], $13::bigint[], $14::text[]::pgrab_internal.cost[])::pgrab_internal.outcomes,
  $9::bigint, $10::text) f
