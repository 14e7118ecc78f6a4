-- Serves: the page of a batch: how far it is.  Plan: task_batch_idx.  $1 id.
select b.members, b.succeeded, b.failed, b.running, b.waiting, b.percent, b.eta
from pgrab.batches b where b.id = $1::bigint
