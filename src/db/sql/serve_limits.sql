-- Serves: the page Limits.  As pgrab limit, with the rule by which each breaks.  $1 limit.
select l.*, pgrab_tool.break_rule(l.key) as breaks from pgrab.limits l order by l.key limit $1::bigint
