"""migrations/schema.txt is the schema that the migrations make, so that a diff shows what a change of theirs does.

PGRAB_DOCS_WRITE=1 writes it.  It is that of PostgreSQL 15, Debian's; others spell some expressions differently.
"""
import os
import re
import subprocess
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SNAPSHOT = HERE.parents[1] / "migrations/schema.txt"
HEAD = """The schema as `pgrab migrate` makes it, on PostgreSQL 15: tables, views, types, functions.  A function is written in sql
unless it says otherwise.  Written by `PGRAB_DOCS_WRITE=1 scripts/test docs tests/docs/test_schema.py`; read the diff.
"""


def folded(line):
    indent = re.match(" *", line)[0]
    return textwrap.fill(line, 110, subsequent_indent=indent + "    ", break_long_words=False, break_on_hyphens=False)


def test_the_snapshot_is_what_the_migrations_make(db):
    if db.one("select current_setting('server_version_num')::int / 10000") != 15:
        pytest.skip("the snapshot is that of PostgreSQL 15")
    done = subprocess.run(["psql", "-qXAt", "-v", "ON_ERROR_STOP=1", "-f", HERE / "schema.sql", db.dsn],
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    made = HEAD + "".join(folded(line) + "\n" for line in done.stdout.splitlines())
    if os.environ.get("PGRAB_DOCS_WRITE"):
        SNAPSHOT.write_text(made, encoding="utf-8")
    assert made.splitlines() == SNAPSHOT.read_text(encoding="utf-8").splitlines(), \
        "the migrations make something else; PGRAB_DOCS_WRITE=1 writes it"


def listed(part):
    """The names in the second column of a table of docs/sql.md."""
    rows = [line.split("|")[2] for line in part.splitlines() if line.startswith("| ")]
    return sorted(set(re.findall(r"`(\w+)`", " ".join(rows))))


def test_the_page_lists_what_is_in_the_schema(db):
    """What users are not meant to call goes into another schema, so that \\df shows what they call."""
    page = (HERE.parents[1] / "docs/sql.md").read_text(encoding="utf-8")
    functions, relations = page.split("## What is there?", 1)[1].split("And what is in", 1)
    made = db.one("select array_agg(distinct p.proname::text) from pg_proc p where p.pronamespace = 'pgrab'::regnamespace")
    assert listed(functions) == sorted(made)
    made = db.one("select array_agg(c.relname::text) from pg_class c where c.relnamespace = 'pgrab'::regnamespace and c.relkind in ('r', 'p', 'v') "
                  "and not c.relispartition")
    assert listed(relations) == sorted(made)


def test_the_page_lists_the_columns_that_users_write(db):
    page = (HERE.parents[1] / "docs/sql.md").read_text(encoding="utf-8")
    rows = page[page.index("| column | default | |"):page.index("Null means the default")].splitlines()
    assert sorted(re.findall(r"`(\w+)`", " ".join(row.split("|")[1] for row in rows if row.startswith("|")))) == sorted(db.one("select pgrab_internal.written()"))


def test_the_tests_of_the_schema_are_named_as_what_they_test():
    """15_upkeep.sql tests what migrations/api/15_upkeep.sql makes, and so does 15_upkeep_keep.sql."""
    made = {path.stem for path in (HERE.parents[1] / "migrations/api").glob("*.sql")}
    tested = {path.stem for path in (HERE.parents[1] / "tests/sql").glob("*.sql")} - {"01_upgrade"}
    stray = [test for test in tested if not any(f"{test}_".startswith(f"{name}_") for name in made)]
    assert not stray, f"no file of migrations/api has the name of {stray}"
    assert made <= tested, f"no file of tests/sql has the name of {made - tested}"
