-- As look.sql, without the rows that somebody has locked: so that however many of them there are, the limits
-- count what can be had.  It locks the rows it finds, which look.sql spares us; so only for a while after a
-- claim met a locked row.
-- Serves: loader.
:look_rows
        limit 128
        for update skip locked) t
    limit $10::bigint) t
