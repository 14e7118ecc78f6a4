-- Serves: pgrab nodes --check.  $1 name; null: any.
select exists (
  select from pgrab.node n where n.name = coalesce($1::text, n.name) and n.live)
