-- Serves: pgrab adopt.
select case when pgrab.adopt() then 'the tasks of this database run here from now on'
  else 'nothing to do: they already run here' end as said
