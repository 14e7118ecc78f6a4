-- What the sql runs of an incarnation will prove themselves with on connections of their owners.
-- Serves: register, before it.  $1 incarnation.
select pgrab_internal.run_key_make($1::bigint)
