-- Serves: the page Limits.  As pgrab limit, with the rule by which each breaks.
select l.*, pgrab_tool.break_rule(l.key) as breaks from pgrab.limits l order by l.key
