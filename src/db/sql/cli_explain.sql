-- Serves: pgrab explain.  $1 id.
select e.gate, e.verdict, e.detail from pgrab.explain($1::bigint) e
