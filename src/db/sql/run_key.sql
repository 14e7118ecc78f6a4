-- Makes the key by which the sql runs of an incarnation prove themselves on connections of their owners.
-- Serves: register, before node_register.sql.  $1 incarnation.
select pgrab_internal.run_key_make($1::bigint)
