-- Tasks that have been due for longer than their misfire_after: what becomes of the fires is
-- pgrab_internal.misfire()'s to say.
-- Serves: loader.  $1 ids, $2 versions.
select pgrab_internal.misfire($1::bigint[], $2::bigint[])
