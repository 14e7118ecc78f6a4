-- Serves: pgrab status.
select o.* from pgrab.overview o
