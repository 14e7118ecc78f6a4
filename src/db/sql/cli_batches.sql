-- Serves: pgrab batches, GET /api/v1/batches, the page.  Plan: batch_pkey; task_batch_idx of each.
select b.* from pgrab.batches b order by b.id limit 1000
