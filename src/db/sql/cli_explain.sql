-- Serves: pgrab explain.  $1 id, key or name.
select e.gate, e.verdict, e.detail from pgrab.explain($1::text) e
