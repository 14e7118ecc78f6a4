-- Kinds of plugged-in executors become insertable.  Serves: register.  $1 kinds, $2 summaries.
insert into pgrab.kind (kind, summary) select * from unnest($1::text[], $2::text[])
  on conflict (kind) do nothing
