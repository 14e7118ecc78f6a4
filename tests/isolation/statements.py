#!/usr/bin/env python3
"""Prints SQL for the database of the isolation tests: the program's own statements, and what runs one.

statement.run(name, columns, parameters...) executes src/db/sql/<name>.sql with these parameters, as texts,
and gives the named columns of each row.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "src/db"))
sys.dont_write_bytecode = True
from embed import expand  # noqa: E402

PARAMETERS = 18  # of node_register, which has the most

RUN = """
create function statement.run(name text, columns text, variadic params text[]) returns setof text
language plpgsql as $run$
declare
  r record;
begin
  for r in execute (select t.sql from statement.text t where t.name = run.name)
    using %s
  loop
    return next (
      select string_agg(concat_ws('=', c.name, to_jsonb(r) ->> c.name), ' ' order by c.place)
      from string_to_table(columns, ' ') with ordinality as c(name, place));
  end loop;
end $run$;
""" % ", ".join(f"params[{i}]" for i in range(1, PARAMETERS + 1))


def main():
    print("create schema statement;\ncreate table statement.text (name text primary key, sql text not null);")
    for path in sorted((ROOT / "src/db/sql").glob("*.sql")):
        print(f"insert into statement.text values ('{path.stem}', $sql$\n{expand(path)}\n$sql$);")
    print(RUN)


main()
