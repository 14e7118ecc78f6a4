-- Like look_turns.sql, but skips rows that another session has locked: see look_free.sql.
-- Serves: loader.
:turns_rows
          and exists (select from pgrab.task x where x.id = t.id for update skip locked)
        limit l.slice) t on true
    limit l.wanted) t
where not (select c.paused from pgrab.cluster c)
