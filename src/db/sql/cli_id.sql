-- Serves: every command that takes one task.  Raises when there is none, or several.  $1 id, key or name.
select pgrab_tool.id_of($1::text)
