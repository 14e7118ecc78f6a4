-- Serves: pgrab resume --all.
select case when pgrab.resume_all() then 'tasks are taken again' else 'nothing was paused' end as said
