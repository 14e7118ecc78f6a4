-- What is due soon and free, in the lanes that this node may run and the given shards.  It only reads; the
-- claim that follows decides.  Serves: loader.  Plan: one index scan of task_due_idx for each pair of lane
-- and shard, stopped by the limits.  With a backlog a lane ends after a few shards, so the caller rotates the
-- list of shards at every look.  What this node may not run is in other lanes and is not read.  Kind, owner,
-- labels and delivery are checked all the same: what stands for a lane in the index is a hash.
-- $1 lanes by the numbers of their rows bigint[], $14 and what stands for each in the index bytea[], $2
-- where the shards of each begin int[], $3 and end, in $4 shards smallint[] and $5 the lowest due time to
-- look at in each (us since 1970, null: any; dead entries pile up at the head of the index while an old
-- snapshot is held), $6 how far ahead in each lane bigint[] (us; negative: late by that much), $7 kinds
-- text[], $8 labels jsonb, $9 may this node run at_most_once tasks, $10 how many rows of each lane
-- bigint[], $11 owners text[], $12 bounds jsonb, $13 how many rows of each shard of a lane bigint[], $15 also
-- what needs a place under a limit boolean.
:look_rows
        limit l.slice) t
    limit l.wanted) t
where not (select c.paused from pgrab.cluster c)
