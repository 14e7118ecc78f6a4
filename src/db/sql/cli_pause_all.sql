-- Serves: pgrab pause --all.
select case when p.paused then 'all tasks are paused from now on' else 'they were already paused' end as said,
  p.put_back
from pgrab.pause_all() p
