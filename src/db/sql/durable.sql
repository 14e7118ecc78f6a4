-- Could a start that was acknowledged be lost?  Null: no, and at_most_once can be promised; otherwise, why.
-- Serves: register, loader, starter.  $1 are asynchronous standbys accepted?
select pgrab_internal.may_lose($1::boolean)
