-- Like look.sql, for lanes that have a backlog and whose tasks have a share_key: from one key to the next, of
-- each the first few that are due.
-- Serves: loader.  Plan: task_share_idx, a step for each key that it comes by, and of each key at most 128
-- rows, or as many as are wanted of it: from one of our shards on, another one in the next look.  (Nothing
-- says that share_key is equal to the key: task_due_idx would have the same order then, and read all keys.)
-- Parameters as of look.sql, but for each lane $2 the shard from which on to read smallint[], $3 how many
-- keys int[], $4 our shards bytea[], a bit each, $5 the key behind which to go on text[], $13 how many rows
-- of a key bigint[].  A key of which nothing was found has a row without id: the next look goes on behind it.
:turns_rows
        limit l.slice) t on true
    limit l.wanted) t
where not (select c.paused from pgrab.cluster c)
