-- As look.sql, without the rows that somebody has locked: so that however many of them there are, the limits
-- count what can be had.  It locks the rows it finds, which look.sql spares us; so only for a while after a
-- claim met a locked row.
-- Serves: loader.
:look_rows
        limit l.slice
        for update skip locked) t
    limit l.wanted) t
