-- How far is it, is something newer and breaking there, and which api?  Serves: migrate.  $1 the highest version this program knows.
select coalesce(max(m.version), 0), coalesce(bool_or(m.breaking and m.version > $1::int), false), (select a.hash from pgrab.api a) from pgrab.migration m
