-- Like look.sql, but skips rows that another session has locked, so that the limits count only rows that can
-- be claimed.  It locks the rows it finds, which look.sql avoids; so it is used only for a while after a
-- claim met a locked row.
-- Serves: loader.
:look_rows
        limit l.slice
        for update skip locked) t
    limit l.wanted) t
where not (select c.paused from pgrab.cluster c)
